"""Deriving rewards from what is new in the lake.

A step reads the attempts with new evidence since the last one, those of which a derived reward
landed that others have overtaken meanwhile, and all attempts of tenants whose rules file changed.
It derives their rewards, and emits those that are not in effect. Only then the state moves on. A
tenant whose rules file is wrong gets no rewards until it is repaired; then all of its attempts are
derived.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from atdp.lakehouse import Connection, Lake, TableName, connect
from atdp.rewards.derivation import derive_rewards
from atdp.rewards.derivation_state import NO_RULES, DerivationState
from atdp.rewards.errors import RulesError
from atdp.rewards.evidence import Attempt
from atdp.rewards.evidence_reader import (
    changed_attempts,
    overtaken_attempts,
    read_evidence,
    read_rewards_in_effect,
)
from atdp.rewards.metrics import RewardMetrics
from atdp.rewards.reward_events import rewards_to_emit
from atdp.rewards.reward_producer import RewardProducer
from atdp.rewards.rules_file import RewardRules
from atdp.rewards.rules_store import RulesStore
from atdp.schemas import Event

_log = logging.getLogger("atdp.rewards")

_ATTEMPTS_AT_A_TIME = 2_000
"""Attempts whose evidence is held in memory at one time."""


class Rewarder:
    """Derives rewards for all tenants of one lake."""

    def __init__(
        self,
        lake: Lake,
        rules: RulesStore,
        producer: RewardProducer,
        metrics: RewardMetrics,
        *,
        state_file: Path,
    ) -> None:
        self._lake, self._rules, self._producer, self._metrics = lake, rules, producer, metrics
        self._state_file = state_file
        self._state = DerivationState.read(state_file)
        self._problems: dict[str, str] = {}
        self._seen: Mapping[TableName, int] = {}

    def problem(self) -> str | None:
        """Return what is wrong with rules files, for the health of the process."""
        return "; ".join(self._problems.values()) or None

    def step(self) -> int:
        """Derive what is new; returns the number of rewards emitted.

        Raises:
            EmissionFailed: Kafka did not acknowledge them; call again.
            LakehouseError: the lake cannot be read.
        """
        snapshots = self._lake.snapshots()
        identities = {tenant: _identity(self._rules_of(tenant)) for tenant in self._state.rules}
        if snapshots == self._seen and identities == self._state.rules:
            return 0
        position = self._lake.committed_offsets("events", snapshots["events"])
        emitted = 0
        derived_by: dict[str, str] = {}
        with connect(lake=self._lake, tenant=None, purpose="train", snapshots=snapshots) as lake:
            changed = self._changed(lake)
            for tenant in sorted({*changed, *self._state.rules}):
                rules = self._rules_of(tenant)
                derived_by[tenant] = _identity(rules)
                if rules is None:
                    continue
                attempts = changed.get(tenant, [])
                if self._state.rules.get(tenant) != rules.identity:
                    attempts = changed_attempts(lake, after={}, tenant=tenant)
                emitted += self._derive(lake, tenant, rules, attempts)
        reached = DerivationState(position=position, rules=derived_by)
        if reached != self._state:
            reached.write(self._state_file)
            self._state = reached
        self._seen = snapshots
        return emitted

    def _changed(self, lake: Connection) -> dict[str, list[Attempt]]:
        by_tenant: defaultdict[str, list[Attempt]] = defaultdict(list)
        after, sources = self._state.position, self._rules.sources()
        changed = changed_attempts(lake, after=after, sources=sources)
        overtaken = overtaken_attempts(lake, after=after, identities=self._state.rules)
        for attempt in dict.fromkeys([*changed, *overtaken]):
            by_tenant[attempt.tenant].append(attempt)
        return by_tenant

    def _rules_of(self, tenant: str) -> RewardRules | None:
        """Return the rules of a tenant; None where it has none, or a wrong file (logged once)."""
        try:
            rules = self._rules.rules_of(tenant)
        except RulesError as error:
            if self._problems.get(tenant) != str(error):
                _log.error("tenant %s gets no rewards: %s", tenant, error)
                self._metrics.broken_rules.labels(tenant).set(1)
            self._problems[tenant] = str(error)
            return None
        if self._problems.pop(tenant, None) is not None:
            self._metrics.broken_rules.labels(tenant).set(0)
        return rules

    def _derive(
        self, lake: Connection, tenant: str, rules: RewardRules, attempts: Sequence[Attempt]
    ) -> int:
        emitted = 0
        for start in range(0, len(attempts), _ATTEMPTS_AT_A_TIME):
            part = attempts[start : start + _ATTEMPTS_AT_A_TIME]
            events = list(self._events(lake, tenant, rules, part))
            if events:
                self._producer.send(events)
                self._metrics.emitted.labels(tenant).inc(len(events))
            emitted += len(events)
        return emitted

    def _events(
        self, lake: Connection, tenant: str, rules: RewardRules, attempts: Sequence[Attempt]
    ) -> Iterator[Event]:
        in_effect = read_rewards_in_effect(lake, tenant, attempts)
        for evidence in read_evidence(lake, tenant, attempts, rules.limits):
            beyond = sum(not rating.within_limits for rating in evidence.ratings)
            if beyond:
                self._metrics.beyond_limits.labels(tenant).inc(beyond)
            yield from rewards_to_emit(
                evidence,
                derive_rewards(rules, evidence),
                in_effect[evidence.attempt],
                rules_version=rules.identity,
                dimension=rules.dimension,
            )


def _identity(rules: RewardRules | None) -> str:
    return NO_RULES if rules is None else rules.identity
