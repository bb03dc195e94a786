"""The check of statements: exactly one SELECT, or nothing runs.

This check gives a helpful message and is a second line of defence. The boundary is elsewhere: a
connection can read only the files that were listed for it (see `visible_files`).
"""

import duckdb

from atdp.lakehouse.errors import QueryFailed, QueryRefused


def require_single_select(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """Return the one SELECT statement in `text`.

    Raises:
        QueryRefused: there is another statement, or more than one.
        QueryFailed: it does not parse.
    """
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise QueryFailed(error_text(error)) from error
    if len(statements) != 1:
        raise QueryRefused(f"one SELECT statement at a time; this is {len(statements)} statements")
    statement = statements[0]
    if statement.type != duckdb.StatementType.SELECT:
        raise QueryRefused(
            "only SELECT (also WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES) is allowed, "
            f"not {statement.type.name}: the lake is append-only and written by the lake writer "
            "alone"
        )
    return statement


def error_text(error: duckdb.Error) -> str:
    """Return DuckDB's message, which names the unknown column or table and those that exist."""
    return str(error).strip()
