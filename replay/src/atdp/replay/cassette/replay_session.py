"""A replay of recordings from names and a dataset to a report.

The lake is read first. Then the process may reach nothing but the engine of the policy that is
asked (`socket_guard`). An error after the recordings were read becomes the verdict ERROR, with the
message as its reason.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import httpx

from atdp.inference import bearer
from atdp.lakehouse import LakehouseError, open_lake
from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.engine_agent import EngineAgent
from atdp.replay.cassette.hermetic_run import ReplayedTrajectory, ReplayTools
from atdp.replay.cassette.recording import Recording
from atdp.replay.cassette.recording_report import (
    RecordingInputs,
    RecordingMeasures,
    RecordingReport,
    ReplayMode,
)
from atdp.replay.cassette.recording_set import RecordingSet, read_recordings
from atdp.replay.cassette.self_agreement import pools, replay_against_itself
from atdp.replay.cassette.socket_guard import only_engine
from atdp.replay.cassette.teacher_forcing import ActionLikelihood, action_likelihoods
from atdp.replay.config import ReplayConfig
from atdp.replay.dataset_evaluation import registered_policy
from atdp.replay.errors import ReplayDataError, ReplayError
from atdp.replay.report_json import rounded_canonical_json
from atdp.replay.run import PolicyVersion
from atdp.replay.stack_engines import StackEngines
from atdp.replay.verdict import Reason, Verdict
from atdp.runtime import Home

T = TypeVar("T")
R = TypeVar("R")
Measured: TypeAlias = tuple[RecordingMeasures, Verdict, tuple[Reason, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingRequest:
    """The candidate and the recordings that it is replayed on."""

    dataset: str
    model: str
    candidate: str
    candidate_url: str | None = None
    """Engine that serves the candidate; None: found in the stack."""
    baseline: str | None = None
    """For teacher forcing: a version that is asked too; None: the recorded agent."""
    baseline_url: str | None = None
    settings: CassetteSettings = field(default_factory=CassetteSettings)
    changes: Counterfactual = field(default_factory=Counterfactual)


class ReplaySession:
    """One replay: its recordings and its engines."""

    def __init__(self, home: Home, request: RecordingRequest, mode: ReplayMode) -> None:
        """Read the recordings.

        Raises:
            ReplayDataError: the dataset does not exist or cannot be read.
        """
        try:
            lake = open_lake(home)
        except LakehouseError as error:
            raise ReplayDataError(str(error)) from error
        self.request = request
        self.recordings: RecordingSet = read_recordings(
            lake, request.dataset, request.settings.tools
        )
        self.tools = ReplayTools(
            settings=request.settings, rules=self.recordings.rules, changes=request.changes
        )
        self.candidate = registered_policy(
            home, request.model, request.candidate, request.candidate_url
        )
        self.baseline = (
            None
            if request.baseline is None
            else registered_policy(home, request.model, request.baseline, request.baseline_url)
        )
        self.engines = StackEngines.of(home)
        self._mode: ReplayMode = mode
        self._answers = hashlib.sha256()

    def report(self, measure: "Callable[[ReplaySession], Measured]") -> RecordingReport:
        """Measure, judge and report."""
        failure: str | None = None
        try:
            measures, verdict, reasons = measure(self)
        except ReplayError as error:
            failure, measures, verdict = str(error), RecordingMeasures(), Verdict.ERROR
            reasons = (Reason(code=error.code, text=failure),)
        return RecordingReport(
            inputs=RecordingInputs(
                mode=self._mode,
                dataset=self.recordings.dataset,
                not_replayable=self.recordings.not_replayable,
                candidate=self.candidate.as_input,
                baseline=None if self.baseline is None else self.baseline.as_input,
                settings=self.request.settings.model_dump(mode="json"),
                changes_sha256=self.request.changes.sha256,
                answers_sha256=None if failure is not None else self._answers.hexdigest(),
                failure=failure,
            ),
            verdict=verdict,
            reasons=reasons,
            measures=measures,
        )

    @contextmanager
    def agent(self, policy: PolicyVersion) -> Iterator[EngineAgent]:
        """Open the live agent of a policy; the process reaches nothing but its engine meanwhile."""
        url = self.engines.find(policy)
        with (
            only_engine(url),
            httpx.Client(
                timeout=self.request.settings.timeout_s,
                headers=bearer(self.engines.token),
                trust_env=False,
            ) as client,
        ):
            yield EngineAgent(
                client=client,
                url=url,
                model=policy.model,
                version=policy.version,
                settings=self.request.settings,
            )

    def likelihoods(
        self, policy: PolicyVersion, recordings: Sequence[Recording]
    ) -> list[ActionLikelihood]:
        """Return the log-likelihoods of the recorded actions under a policy."""
        url = self.engines.find(policy)
        config = ReplayConfig(timeout_s=self.request.settings.timeout_s)
        with (
            only_engine(url),
            self.engines.open(replace(policy, url=url), config) as scorer,
        ):
            return action_likelihoods(recordings, scorer)

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of some work on every item, in their order."""
        with ThreadPoolExecutor(self.request.settings.parallel) as threads:
            return list(threads.map(work, items))

    def note(self, answers: object) -> None:
        """Add what an engine answered to the digest of the run."""
        self._answers.update(rounded_canonical_json(answers))

    def self_replays(self) -> list[ReplayedTrajectory]:
        """Return the replays of the recorded agent against its own other recordings."""
        cassettes = self.recordings.cassettes
        return replay_against_itself(cassettes, self.tools, pools(cassettes))
