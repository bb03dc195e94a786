"""The statement check: exactly one SELECT, or nothing runs.

This is a courtesy and a second line, not the boundary: what a connection may read is decided by the
files that were listed for it and by DuckDB's lock on everything else.
"""

import duckdb

from atdp.lakehouse.errors import QueryFailed, QueryRefused


def require_single_select(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """The one SELECT statement in `text`.

    Raises:
        QueryRefused: there is another statement, or more than one.
        QueryFailed: it does not parse.
    """
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise QueryFailed(explain(error)) from error
    if len(statements) != 1:
        raise QueryRefused(f"one SELECT statement at a time; this is {len(statements)} statements")
    statement = statements[0]
    if statement.type != duckdb.StatementType.SELECT:
        raise QueryRefused(
            f"only SELECT (also WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES) is allowed, not {statement.type.name}: "
            "the lake is append-only and written by the lake writer alone"
        )
    return statement


def explain(error: duckdb.Error) -> str:
    """DuckDB's message, which names the column or table and what exists instead; for people, without its class name."""
    return str(error).strip()
