"""The two files of a report: its page and, beside it, its canonical JSON."""

from pathlib import Path


def write_report_files(page: Path, *, html: str, canonical: bytes) -> tuple[Path, Path]:
    """Write the page and the canonical JSON; returns both paths.

    A path that ends in `.json` names the JSON, and the page stands beside it. Missing parent
    folders are made. A target that exists is written in place, not replaced: a symbolic link or a
    named pipe stays what it is, and a file keeps its permissions.
    """
    page = page if page.suffix.lower() not in ("", ".json") else page.with_suffix(".html")
    data = page.with_suffix(".json")
    page.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(canonical)
    page.write_text(html, encoding="utf-8")
    return page, data
