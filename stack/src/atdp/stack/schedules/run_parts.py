"""The parts of a run, on a running stack: resolve, pin, evaluate, record, publish, tell.

A part is repeated after a kill while its result is not on the disk, so each may run twice with the
same effect: a dataset is pinned once under its name, a report about the same input is the same
report, a release gate records it once, an evaluation is published under one id, and a receiver
knows a notice by its id.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

import httpx

from atdp.control import (
    STORE_FILE_NAME,
    ReleaseFlow,
    ReleaseStage,
    ReleaseState,
    ReleaseStore,
    line_name,
    open_flow,
)
from atdp.lakehouse import Lake, LakehouseError, create_dataset, open_lake
from atdp.replay import (
    GateRequest,
    ReplayReport,
    ReplayRequest,
    StoredRuns,
    Verdict,
    evaluate_dataset,
    evaluate_gates,
    read_gate_settings,
    worst_verdict,
    write_gate_report,
)
from atdp.runtime import Home, utc_now
from atdp.stack.evaluations.publication import publish_evaluation
from atdp.stack.schedules.run_datasets import remove_old_datasets
from atdp.stack.schedules.run_facts import NOTHING_TO_EVALUATE, Facts, PartName
from atdp.stack.schedules.run_order import RunOrder
from atdp.stack.schedules.run_telling import tell_receiver
from atdp.stack.schedules.schedule_definition import CANARY, LIVE, NEWEST_CANDIDATE

_log = logging.getLogger("atdp.schedules")


@dataclass(slots=True)
class StackParts:
    """`RunParts` of a home."""

    home: Home
    now: Callable[[], datetime] = utc_now

    def make(self, part: PartName, order: RunOrder, facts: Facts) -> Facts:
        """See `RunParts`."""
        match part:
            case "resolve":
                return self._resolve(order)
            case "pin":
                return self._pin(order)
            case "evaluate":
                return self._evaluate(order, facts)
            case "gate":
                return self._gate(order, facts)
            case "record":
                self._record(order, facts)
            case "publish":
                self._publish(order, facts)
            case "tell":
                tell_receiver(self.home, order, facts, self.now())
            case _:
                assert_never(part)
        return {}

    def close(self, order: RunOrder) -> None:
        """See `RunParts`."""

    def _resolve(self, order: RunOrder) -> Facts:
        definition = order.definition
        state = self._release_state(definition.model)
        candidate = _candidate(definition.candidate, order.candidate, state)
        baseline = definition.baseline
        if baseline == LIVE:
            baseline = state.live.version if state.live else ""
        if not candidate or not baseline or candidate == baseline:
            return {
                "verdict": Verdict.INCONCLUSIVE.value,
                "reasons": [NOTHING_TO_EVALUATE],
                "text": f"{definition.model} has no {definition.candidate} "
                f"that differs from {definition.baseline}.",
            }
        look = order.definition.config.look
        if definition.record:
            with self._flow(order) as flow:
                look = flow.look_for(candidate, baseline=baseline, dataset=order.dataset)
        return {"candidate": candidate, "baseline": baseline, "look": look}

    def _pin(self, order: RunOrder) -> Facts:
        name = order.dataset
        pinned = self.home.datasets / f"{name}.json"
        if order.definition.dataset is None and not pinned.exists():
            lake = open_lake(self.home)
            create_dataset(lake, name, order.condition, tenant=order.definition.only_tenant)
            self._remove_old_datasets(lake, order)
        return {"dataset": name}

    def _remove_old_datasets(self, lake: Lake, order: RunOrder) -> None:
        try:
            remove_old_datasets(lake, order.definition, self.now(), but=order.dataset)
        except (LakehouseError, OSError) as error:  # the next run tries again
            _log.warning("old datasets are not removed: %s", error, extra={"run": order.run_id})

    def _evaluate(self, order: RunOrder, facts: Facts) -> Facts:
        report = evaluate_dataset(
            self.home,
            ReplayRequest(
                dataset=facts["dataset"],
                model=order.definition.model,
                candidate=facts["candidate"],
                baseline=facts["baseline"],
            ),
            config=replace(order.definition.config, look=facts["look"]),
        )
        page = StoredRuns.of(self.home).page(report.run_id)
        return {
            "verdict": report.verdict.value,
            "reasons": [reason.code for reason in report.reasons],
            "text": "; ".join(reason.text for reason in report.reasons),
            "evaluation": report.run_id,
            "report_sha256": report.sha256,
            "report": str(page.relative_to(self.home.root)),
        }

    def _gate(self, order: RunOrder, facts: Facts) -> Facts:
        definition = order.definition
        request = GateRequest(
            candidate=facts["candidate"],
            baseline=facts["baseline"],
            dataset=facts["dataset"],
            tenants=definition.tenants,
        )
        settings = read_gate_settings(self.home.root / (definition.gates or ""))
        report = evaluate_gates(self.home, request, settings)
        page = self.home.evaluations / "gates" / report.run_id / "report.html"
        write_gate_report(report, page)
        gates = {"gates": str(page.relative_to(self.home.root))}
        replayed = Verdict(facts["verdict"])
        if worst_verdict((replayed, report.verdict)) is replayed:
            return gates
        return {
            "verdict": report.verdict.value,
            "reasons": [reason.code for reason in report.reasons],
            "text": "; ".join(reason.text for reason in report.reasons),
            **gates,
        }

    def _record(self, order: RunOrder, facts: Facts) -> None:
        with self._flow(order) as flow:
            report, verdict = self._report(facts), Verdict(facts["verdict"])
            # Only gates that are worse than the replay change the verdict of the run.
            checks = Verdict.PASS if verdict is report.verdict else verdict
            flow.record_gate(report, checks=checks)

    def _publish(self, order: RunOrder, facts: Facts) -> None:
        report = self._report(facts)
        StoredRuns.of(self.home).write_page(report)
        publish_evaluation(
            self.home,
            report,
            schedule=order.definition.id,
            logical_time=order.logical_time,
        )

    def _report(self, facts: Facts) -> ReplayReport:
        """Return the report as it is stored, since another process may have evaluated."""
        return StoredRuns.of(self.home).report(facts["evaluation"])

    def _release_state(self, model: str) -> ReleaseState:
        if not (self.home.control / STORE_FILE_NAME).exists():
            return ReleaseState()
        with ReleaseStore(self.home.control) as store:
            return store.state(line_name(model))

    @contextmanager
    def _flow(self, order: RunOrder) -> Iterator[ReleaseFlow]:
        actor = f"schedule:{order.definition.id}"
        with ReleaseStore(self.home.control) as store, httpx.Client(trust_env=False) as client:
            yield open_flow(self.home, store, client, model=order.definition.model, actor=actor)


def _candidate(name: str, caused_by: str | None, state: ReleaseState) -> str | None:
    """Return the version that a name of a definition stands for now; None: there is none."""
    if name == CANARY:
        return state.canary.version if state.canary else None
    if name != NEWEST_CANDIDATE:
        return name
    if caused_by is not None:
        return caused_by
    waiting = [v.name for v in state.versions.values() if v.stage is ReleaseStage.REGISTERED]
    return waiting[-1] if waiting else None
