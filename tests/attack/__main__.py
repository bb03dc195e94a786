"""Attacks a stack as holders of ordinary keys and another local user could, and counts.

    python -m tests.attack [--home DIR] [--only WORD]

Without `--home` a stack is started for it in a temporary folder. With it, the stack that runs for
this home is attacked: tenants `acme` and `rival` get keys, records and quarantined records.

The last line is `A of B attacks stopped`; the exit status is 1 when one was not. Attacks that this
machine does not allow (to become another local user needs root) are named and not counted.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atdp.runtime import Home
from atdp.stack import FIRST_POLICY, running_stack

from .attacks import ATTACKS, try_attack
from .target import Target


def main(argv: list[str] | None = None) -> int:
    """Run the attacks; return 1 when one was not stopped."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--home", type=Path, help="home of a running stack; default: a new one")
    parser.add_argument("--only", default="", help="only attacks whose description has this word")
    options = parser.parse_args(argv)
    chosen = [attack for attack in ATTACKS if options.only in attack.description]
    stopped = tried = 0
    with _stack(options.home) as home:
        target = Target(home)
        for attack in chosen:
            began_s = time.monotonic()
            outcome = try_attack(attack, target)
            tried += outcome.tried
            stopped += outcome.stopped
            seconds = time.monotonic() - began_s
            print(f"{outcome.word:>9}  {seconds:5.1f} s  {attack.description}", flush=True)
            if not outcome.stopped:
                print(f"{'':>20}{outcome.seen}", flush=True)
    print(f"{stopped} of {tried} attacks stopped")
    return int(stopped < tried)


@contextmanager
def _stack(home: Path | None) -> Iterator[Home]:
    if home is not None:
        yield Home(home.resolve())
        return
    with tempfile.TemporaryDirectory(prefix="atdp-attack-") as folder:
        # Another local user may enter the folder; the home is what keeps them out.
        Path(folder).chmod(0o755)
        new = Home(Path(folder) / "home")
        environ = {**os.environ, FIRST_POLICY: "customer-service"}
        with running_stack(new, environ, lambda text: print(f"{'':>20}{text}")):
            yield new


if __name__ == "__main__":
    sys.exit(main())
