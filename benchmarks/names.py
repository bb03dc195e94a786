"""Measures the share of known personal values that governance removes, and the price of it.

    python -m benchmarks.names [--policy FILE] [--files N] [--labelled N] [--kilobytes N]

The conversations are those of tau-bench retail (`../shared/data`), with the true users and orders
beside them. Each one is imported as events, which are governed in order by the whole governor; then
they are governed again with all that was learned, as the stage does when a trajectory ends. A value
counts as gone when its text does not occur any more, whatever its case.

* `emails`, `streets`, `ids`, `full names`, `cities`: share of the occurrences that are gone;
  `streets` holds both address lines and the postal code, `ids` user and payment ids.
* `false alarms`: replacements per 10 kB of Python source of installed packages.
* `F2`: any personal value found, spans with an overlap (IoU) of at least .75, in generated text of
  templates, names and places that training has not seen (`governance/ner`).
* The price of it: the share of the values in tool arguments that were changed although they are no
  value of the truth.
"""

import argparse
import json
import random
import re
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from governance.ner.samples import heldout_samples

from atdp.adapters import UnreadableEntry, make_events
from atdp.adapters.importers.tau_bench import TauBench
from atdp.governance.consent import nothing_registered
from atdp.governance.evaluation.policy_evaluation import PolicyFinder, evaluate
from atdp.governance.evaluation.span_scores import ALL
from atdp.governance.learned.learned_set import NOTHING_LEARNED
from atdp.governance.policy import PolicyDocument, compile_policy, parse_policy
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.tenant_governor import TenantGovernor
from atdp.governance.tokenizer_folder import TokenizerFolder
from atdp.schemas import decode_record, encode

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DATA: Final = Path(__file__).resolve().parents[2] / "shared/data"
PACKAGES: Final = ("requests", "jinja2", "networkx", "pydantic", "uvicorn", "httpx", "click")
KEY: Final = TenantKey(b"benchmark of names, 32 bytes key")
SEED: Final = 4711
"""Another seed than that of training."""


@dataclass(slots=True)
class Truth:
    """Occurrences of the true values before and after governance, by kind."""

    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    arguments: int = 0
    arguments_changed: int = 0
    text_chars: int = 0
    seconds: float = 0.0

    def gone(self, kind: str) -> float:
        """Return the share of the occurrences that are gone."""
        return 1 - self.after[kind] / max(1, self.before[kind])


def values_of(
    user_id: str, user: Mapping[str, Any], orders: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the true values of a customer, by kind."""
    places = [user["address"], *(orders[order]["address"] for order in user["orders"])]
    name = user["name"]
    return {
        "emails": [user["email"]],
        "streets": [each[part] for each in places for part in ("address1", "address2", "zip")],
        "ids": [user_id, *user["payment_methods"]],
        "full names": [f"{name['first_name']} {name['last_name']}"],
        "cities": [each["city"] for each in places],
    }


def occurrences(text: str, values: Sequence[str]) -> int:
    """Return how often any of the values stands in a lower-case text, not within other words."""
    each = "|".join(
        re.escape(value.lower()) for value in sorted(set(values), key=len, reverse=True)
    )
    return len(re.findall(rf"(?<![a-z0-9])(?:{each})(?![a-z0-9])", text))


def text_of(record: Mapping[str, Any]) -> str:
    """Return all text of an event in lower case, without its stamp."""
    content = {**record, "governance": None}
    return json.dumps(content, default=str, ensure_ascii=False).replace("\\", "").lower()


def arguments_of(record: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values of the arguments of an event's tool call."""
    call = (record["action"] or {}).get("tool_call") or {}
    for text in (call.get("arguments"), call.get("arguments_json")):
        if isinstance(text, str):
            try:
                yield from leaves(json.loads(text))
            except json.JSONDecodeError:
                yield text


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values of JSON that are neither objects nor lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from leaves(item)


def govern_twice(
    governor: TenantGovernor, records: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Govern a trajectory in order, and then again with all that was learned from it."""
    learned = NOTHING_LEARNED
    for record in records:
        learned = governor.govern(record, NOW, learned).learned
    return [governor.govern(record, NOW, learned).record for record in records]


def measure_retail(policy: CompiledPolicy, runs: Sequence[Path]) -> Truth:
    """Govern the conversations and count what is left of their truth."""
    users = json.loads((DATA / "pii_ground_truth_retail/users.json").read_text())
    orders = json.loads((DATA / "pii_ground_truth_retail/orders.json").read_text())
    truth = Truth()
    governor = TenantGovernor.of("retail", policy, nothing_registered, KEY, TokenizerFolder(DATA))
    for run in runs:
        rows = json.loads(run.read_text())
        for number, (row, trajectory) in enumerate(
            zip(rows, TauBench().read(run), strict=True), start=1
        ):
            report(f"{run.stem}: conversation {number} of {len(rows)}")
            if isinstance(trajectory, UnreadableEntry) or "task" not in row["info"]:
                continue
            records = [
                decode_record(encode(event))[1] for event in make_events(trajectory, "retail")
            ]
            started = time.process_time()
            governed = govern_twice(governor, records)
            truth.seconds += time.process_time() - started
            user_id = row["info"]["task"]["user_id"]
            count_row(truth, records, governed, values_of(user_id, users[user_id], orders))
    return truth


def count_row(
    truth: Truth,
    records: Sequence[Mapping[str, Any]],
    governed: Sequence[Mapping[str, Any]],
    values: Mapping[str, Sequence[str]],
) -> None:
    """Add the counts of one conversation."""
    before, after = (" ".join(map(text_of, each)) for each in (records, governed))
    truth.text_chars += len(before)
    for kind, known in values.items():
        truth.before[kind] += occurrences(before, known)
        truth.after[kind] += occurrences(after, known)
    known_values = [
        word for each in values.values() for value in each for word in (value, *value.split())
    ]
    for record, other in zip(records, governed, strict=True):
        pairs = zip(arguments_of(record), arguments_of(other), strict=False)
        for old, new in pairs:
            truth.arguments += 1
            if old != new and not occurrences(str(old).lower(), known_values):
                truth.arguments_changed += 1


def source_texts(kilobytes: int) -> Iterator[str]:
    """Yield Python source of installed packages, one file each, the same every time."""
    folder = Path(sysconfig.get_paths()["purelib"])
    files = [path for name in PACKAGES for path in sorted((folder / name).rglob("*.py"))]
    random.Random(9).shuffle(files)
    left = kilobytes * 1_000
    for path in files:
        if left <= 0:
            return
        text = path.read_text(encoding="utf-8", errors="replace")[:20_000]
        left -= len(text)
        yield text


def false_alarms(policy: CompiledPolicy, kilobytes: int) -> tuple[float, Counter[str]]:
    """Return replacements per 10 kB of Python source, and their entities."""
    governor = TenantGovernor.of("code", policy, nothing_registered, KEY, TokenizerFolder(DATA))
    found: Counter[str] = Counter()
    chars = 0
    for text in source_texts(kilobytes):
        report("Python source")
        chars += len(text)
        for each in governor.strings.text(text, "t").replacements:
            found[each.entity] += each.count
    return sum(found.values()) / chars * 10_000, found


def labelled_f2(policy: CompiledPolicy, count: int) -> float:
    """Return the F2 of any personal value in generated text of unseen templates and names."""
    report("labelled text")
    rows = evaluate(PolicyFinder(policy), heldout_samples(SEED, count, reserved=True))
    return next(row.f2 or 0.0 for row in rows if row.entity == ALL and row.measure == "span")


def report(text: str) -> None:
    """Show what is under way, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def read_policy(path: Path | None) -> CompiledPolicy:
    """Return the compiled policy of a file, or the default policy."""
    text = default_policy_text() if path is None else path.read_text(encoding="utf-8")
    document = parse_policy(text, where=str(path or "the default policy"))
    if not isinstance(document, PolicyDocument):
        raise SystemExit(f"{path} is no policy")
    return compile_policy(document)


def main() -> int:
    """Measure, print the figures, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, help="policy file; the default policy without it")
    parser.add_argument("--files", type=int, default=5, help="files of conversations")
    parser.add_argument("--labelled", type=int, default=1_000, help="labelled texts")
    parser.add_argument("--kilobytes", type=int, default=500, help="kilobytes of Python source")
    options = parser.parse_args()
    runs = sorted((DATA / "tau_bench_retail").glob("tool-calling-*.json"))[: options.files]
    if not runs:
        print(f"the conversations are not in {DATA}", file=sys.stderr)
        return 2
    policy = read_policy(options.policy)
    truth = measure_retail(policy, runs)
    alarms, entities = false_alarms(policy, options.kilobytes)
    f2 = labelled_f2(policy, options.labelled)
    report("")
    for kind, count in truth.before.items():
        print(f"{kind}: {count - truth.after[kind]} of {count} occurrences are gone")
    changed = truth.arguments_changed / max(1, truth.arguments)
    print(
        f"tool arguments: {truth.arguments_changed} of {truth.arguments} values ({changed:.1%}) "
        "were changed and are no value of the truth"
    )
    print(f"false alarms in Python source by entity: {dict(entities.most_common())}")
    kilobytes = 2 * truth.text_chars / 1_000
    print(f"CPU: {truth.seconds * 1_000 / kilobytes:.2f} ms per kB, each event governed twice")
    print(
        f"emails {truth.gone('emails'):.4f} · streets {truth.gone('streets'):.4f} · "
        f"ids {truth.gone('ids'):.4f} · full names {truth.gone('full names'):.4f} · "
        f"cities {truth.gone('cities'):.4f} gone · "
        f"false alarms {alarms:.2f} per 10 kB · F2 {f2:.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
