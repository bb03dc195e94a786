"""Decisions per second of the authorizer, one thread, beside plain Python of the same rules.

    python benchmarks/access.py [--json]

`remembered` decides again on data with the same attributes, as a reader does for most trajectories;
`cedar` decides on data that was not seen before; `cedar, with a policy` does so with the ten rules
of an access policy beside those of every home; `guards` are the guards alone. The reference is the
shortest plain Python that gives the same answers for the rules of every home: it checks nothing but
roles and purposes. Times are CPU times of the thread, so a busy machine distorts them less.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from atdp.access import NEVER_EXPIRES, AccessRules, Authorizer, DataResource, guard_refusal
from atdp.runtime import Principal

MEASURE_S = 1.0
NOW = datetime(2026, 6, 1, tzinfo=UTC)
PURPOSES = frozenset({"analytics", "train"})
TRAINER = Principal(key_id="0123456789ab", tenant="acme", role="trainer")
MAY = {"trainer": frozenset({"train", "export"})}
RULES = "\n".join(
    f'forbid (principal, action == Action::"train", resource) '
    f'when {{ resource.classification == "secret-{number}" }};'
    for number in range(10)
)


class OnePolicy:
    def access_rules(self, _tenant: str) -> list[AccessRules]:
        return [AccessRules(name="acme@1", text=RULES)]


def data(policy: str) -> DataResource:
    return DataResource(
        tenant="acme",
        trajectory_id="t",
        purposes=PURPOSES,
        consent="granted",
        classification="unclassified",
        policy=policy,
        quarantined=False,
        agent="support",
        token_fidelity="exact",
        expires_at=NEVER_EXPIRES,
    )


def plain(principal: Principal, action: str, resource: DataResource) -> bool:
    return (
        principal.tenant == resource.tenant
        and action in MAY[principal.role]
        and action in (resource.purposes or ())
    )


def microseconds(
    decide: Callable[[DataResource], object], resources: Iterator[DataResource]
) -> float:
    begin = time.thread_time()
    count = 0
    while time.thread_time() - begin < MEASURE_S:
        for resource in itertools.islice(resources, 50):
            decide(resource)
        count += 50
    return (time.thread_time() - begin) / count * 1e6


def measure() -> dict[str, float]:
    default, ruled = Authorizer(), Authorizer(OnePolicy())
    known = data("acme@1")
    assert default.authorize(TRAINER, "train", known, NOW).allowed
    new = (data(f"acme@{number}") for number in itertools.count(2))
    same = itertools.repeat(known)
    return {
        "plain Python": microseconds(lambda each: plain(TRAINER, "train", each), same),
        "guards": microseconds(lambda each: guard_refusal(TRAINER, "train", each, NOW), same),
        "remembered": microseconds(
            lambda each: default.authorize(TRAINER, "train", each, NOW), same
        ),
        "cedar": microseconds(lambda each: default.authorize(TRAINER, "train", each, NOW), new),
        "cedar, with a policy": microseconds(
            lambda each: ruled.authorize(TRAINER, "train", each, NOW), new
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    figures = measure()
    reference = figures["plain Python"]
    if parser.parse_args().json:
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
        return
    print(f"{'':24}{'µs per decision':>16}{'times plain Python':>20}")
    for name, value in figures.items():
        print(f"{name:24}{value:16.2f}{value / reference:20.0f}")


if __name__ == "__main__":
    main()
