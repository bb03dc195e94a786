"""A lake writer to be killed or frozen: the service with topics of its own and one place to freeze.

To freeze, it writes its pid to a file and stops itself (SIGSTOP), once, after a batch's data files
are written. At `data` that is before the commit begins, at `catalog` after positions were compared
and before the catalog decides.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from atdp.lakehouse import commit
from atdp.lakehouse.lake_writer import WriterSettings
from atdp.lakehouse.positions import Advance
from atdp.lakehouse.table_sink import TableSink
from atdp.lakehouse.writer import run
from atdp.runtime.service.process import Service


class UnguardedSink(TableSink):
    """A sink that commits without comparing positions, which the guard prevents."""

    def _commit(self, files: "list[DataFile] | Any", advance: Advance, admit: Any) -> Table:
        blind = Advance(topic=advance.topic, start={}, end=advance.end)
        return commit.append(self.table, files, blind.applied_to)


def freeze(marker: Path) -> None:
    """Stop this process once; the file is written just before."""
    try:
        with marker.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)


def freezing(base: type[TableSink], marker: Path, place: str) -> type[TableSink]:
    """Return a sink whose `events` table freezes at `place`, at its second batch or later.

    Only a batch with rows counts: one that merely moves the position past commit markers has
    nothing to repeat.
    """

    class FreezingSink(base):  # type: ignore[misc, valid-type]
        def _commit(self, files: "list[DataFile] | Any", advance: Advance, admit: Any) -> Table:
            if self.definition.name == "events" and self.position and files:
                if place == "data":
                    freeze(marker)
                else:
                    decide = self.table.catalog.commit_table

                    def frozen_then_decide(*arguments: Any) -> Any:
                        freeze(marker)
                        return decide(*arguments)

                    self.table.catalog.commit_table = frozen_then_decide
            committed: Table = super()._commit(files, advance, admit)
            return committed

    return FreezingSink


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topics", type=json.loads, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--unguarded", action="store_true")
    parser.add_argument("--freeze-marker", type=Path)
    parser.add_argument("--freeze-at", choices=["data", "catalog"], default="data")


def main() -> int:
    """Run until SIGTERM."""
    service = Service.start("lake-writer", sys.argv[1:], options=_options)
    options = service.options
    make: type[TableSink] = UnguardedSink if options.unguarded else TableSink
    if options.freeze_marker is not None:
        make = freezing(make, options.freeze_marker, options.freeze_at)
    settings = WriterSettings(
        group=options.group,
        topics=options.topics,
        linger_s=0.1,
        max_records=300,
        session_timeout_s=6.0,
    )
    with service.serving():
        run(service, settings, make=make)
    return 0


if __name__ == "__main__":
    sys.exit(main())
