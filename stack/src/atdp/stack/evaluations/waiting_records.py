"""A program that sends what waits: `python -m atdp.stack.evaluations.waiting_records --home DIR`.

It sends the evaluations of the outbox and the decisions of the release flow, so that both tables of
the lake are complete once the broker is back. It is a process of its own because the libraries that
it needs would make the scheduler, which idles, three times as large.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from atdp.control import STORE_FILE_NAME, PublishFailed, ReleaseStore, decisions_outbox
from atdp.runtime import Home, PlatformError, SecretKeyError, setup_logging
from atdp.stack.evaluations.evaluation_outbox import EvaluationOutbox
from atdp.stack.evaluations.publication import publish_pending


def main(argv: Sequence[str] | None = None) -> int:
    """Send what waits; returns 1 when evaluations wait afterwards."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    home = Home(parser.parse_args(argv).home)
    setup_logging("scheduler")
    publish_pending(home)
    return int(bool(EvaluationOutbox.of(home).waiting()) or not _publish_decisions(home))


def _publish_decisions(home: Home) -> bool:
    """Return whether no decision waits any more, or no broker is configured."""
    if not (home.control / STORE_FILE_NAME).exists():
        return True
    with ReleaseStore(home.control) as store:
        try:
            decisions_outbox(home, store).publish_pending()
        except (PublishFailed, SecretKeyError):
            return False
        except PlatformError:
            return True
    return True


if __name__ == "__main__":
    sys.exit(main())
