"""Write the generated pages of `docs/reference/` from what they describe: `python docs/generate_reference.py`.

A test compares the files with what this would write.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from atdp.schemas import SchemaName, all_topics, newest
from atdp.stack.cli.app import build

REFERENCE = Path(__file__).parent / "reference"
LAKEHOUSE = Path(__file__).parents[1] / "lakehouse/src/atdp/lakehouse"
SCHEMAS: tuple[SchemaName, ...] = ("event", "audit", "quarantine", "control_event")


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        REFERENCE / "events.md": events_page(),
        REFERENCE / "topics.md": topics_page(),
        REFERENCE / "tables.md": tables_page(),
        REFERENCE / "cli.md": cli_page(),
    }


def cli_page() -> str:
    """The help of every verb, as `--help` prints it."""
    lines = ["# The `atdp` command", "", "Generated from its help.", ""]
    for words, command in verbs("atdp", typer.main.get_command(build())):
        context = typer.Context(command, info_name=words, max_content_width=100, terminal_width=100)
        lines += [f"## {words}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def verbs(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and all below it, with the words that call them."""
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from verbs(f"{words} {name}", inner)


def tables_page() -> str:
    """Tables from their Iceberg definitions, views and functions from the comments that head their SQL."""
    lines = [
        "# Tables, views and functions",
        "",
        "Generated from `lakehouse/src/atdp/lakehouse/definitions/`, `views/` and `macros/`.",
        "",
    ]
    lines += [
        "Every connection has the tables, the views and the functions. Columns of nested records are in [events.md](events.md).",
        "",
    ]
    for file in sorted((LAKEHOUSE / "definitions").glob("*.json")):
        table = json.loads(file.read_text(encoding="utf-8"))
        partition = ", ".join(
            f"{part['transform']}({part['column']})" for part in table["partition"]
        )
        lines += [f"## {table['name']}", "", table["doc"], ""]
        lines += [
            f"Partitioned by {partition}; sorted by {', '.join(table['sort'])}.",
            "",
            "| column | type |",
            "|--|--|",
        ]
        lines += [
            f"| `{field['name']}` | {iceberg_text(field['type'])} |"
            for field in table["schema"]["fields"]
        ]
        lines.append("")
    for folder, kind in (("views", "view"), ("macros", "function")):
        for file in sorted((LAKEHOUSE / folder).glob("*.sql")):
            comments = itertools.takewhile(
                lambda line: line.startswith("--"), file.read_text(encoding="utf-8").splitlines()
            )
            told = (line.removeprefix("--").strip() for line in comments)
            lines += [f"## {file.stem} ({kind})", "", *told, ""]
    return "\n".join(lines).rstrip() + "\n"


def iceberg_text(type_: Any) -> str:
    """An Iceberg type in words; a record is named by its number of fields."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "list":
        return f"list of {iceberg_text(type_['element'])}"
    return "record of " + ", ".join(f"`{field['name']}`" for field in type_["fields"])


def topics_page() -> str:
    """The topics as a table."""
    rows = [
        f"| `{topic.name}` | {topic.owner} | {topic.key} | {topic.partitions} | {topic.schema} | {topic.doc} |"
        for topic in all_topics().values()
    ]
    head = ["# Topics", "", "Generated from `schemas/src/atdp/schemas/topics.toml`.", ""]
    table = ["| topic | owner | key | partitions | record | what it holds |", "|--|--|--|--|--|--|"]
    return "\n".join([*head, *table, *rows]) + "\n"


def events_page() -> str:
    """Every record of every contract, field by field."""
    lines = [
        "# Records",
        "",
        "Generated from the newest Avro schemas in `schemas/src/atdp/schemas/avro/`.",
        "",
    ]
    for name in SCHEMAS:
        schema = newest(name)
        lines += [f"## {schema.definition['name']} (v{schema.version})", ""]
        lines += [f"Fingerprint `{schema.fingerprint.hex()}`.", ""]
        lines += record_section(schema.definition, level=2)
    return "\n".join(lines).rstrip() + "\n"


def record_section(record: Mapping[str, Any], level: int) -> list[str]:
    """One record's table and, below it, the records that it defines."""
    lines = [record["doc"], "", "| field | type | meaning |", "|--|--|--|"]
    nested: list[dict[str, Any]] = []
    lines += [
        f"| `{field['name']}` | {type_text(field['type'], nested)} | {field['doc']} |"
        for field in record["fields"]
    ]
    lines.append("")
    for inner in nested:
        lines += [f"{'#' * (level + 1)} {inner['name']}", ""]
        lines += record_section(inner, min(level + 1, 4))
    return lines


def type_text(type_: Any, nested: list[dict[str, Any]]) -> str:
    """A type in words; records defined in place are put aside to be described on their own."""
    if isinstance(type_, str):
        return type_
    if isinstance(type_, list):
        return " or ".join(type_text(option, nested) for option in type_)
    match type_["type"]:
        case "array":
            return f"list of {type_text(type_['items'], nested)}"
        case "enum":
            return "one of " + ", ".join(f"`{symbol}`" for symbol in type_["symbols"])
        case "record":
            nested.append(type_)
            return str(type_["name"])
        case _ if "logicalType" in type_:
            return f"{type_['type']} ({type_['logicalType']}, UTC)"
        case other:
            return str(other)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
