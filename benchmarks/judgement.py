"""Replay's verdicts compared with success measured afterwards, over some fifty candidates.

The platform is left out, so that fifty candidates can be made and measured in one run. Customers of
the order desk are served in this process by the worker's own decoder with version `v1`, the demo's
warm start; their sessions are the log. The first message of some customers holds personal data,
which governance redacts: the log keeps the reward of such a session and not its token ids. Then
candidates are made from `v1`:

- `better`: trained by the trainer's own steps on rated sessions of the log's customers, at several
  steps and for several seeds;
- `worse`: the same with every rating turned round;
- `equal`: weights with a little noise, and further supervised steps on the logs of the warm start;
- `style`: supervised steps on sessions that write the same calls in another way, by clerks who are
  right more often, as often, and less often.

Each candidate is judged against `v1` by `atdp.replay.replay`, once for superiority and once for
non-inferiority, and then serves fresh customers. `sign right` is the share of the decided verdicts
that the measured difference confirms: PASS of superiority above 0, PASS of non-inferiority above
the negative margin, FAIL below 0 or below the negative margin. `coverage` is the share of the
intervals, where the evidence was sufficient, that hold the measured difference, after the error of
the measurement (5 % on either side, where the interval of a first look has 2.5 %) has been added to
each half by squares.

Run: `python benchmarks/judgement.py [--log 1000] [--measured 3000] [--markdown FILE]`.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from online_learning import (  # type: ignore[import-not-found]  # a script beside
    OnlineLearner,
    OnlineSettings,
    ServedSession,
    conversation_of,
    messages_of,
    serve,
    warm_start,
)

from atdp.inference.worker.served_model import ServedModel
from atdp.replay import THIN_EVIDENCE, ReplayConfig, ReplayReport, Verdict, replay
from atdp.replay.dataset import PinnedDataset
from atdp.replay.estimators import Floats
from atdp.replay.run import PolicyVersion
from atdp.replay.testing import SampledGeneration, SampledTrajectory
from atdp.trainer.linearize import Row
from atdp.trainer.model import CausalLM, load_model, save_model
from atdp.trainer.sft_loop import SftRules, train_on_rows
from atdp.trainer.sft_rows import conversation_row
from atdp.trainer.stale_logprobs import row_logprobs
from order_desk.customers import CustomerStream
from order_desk.logged_episodes import LoggedCall, logged_episode
from order_desk.order_task import TOOLS, CustomerOrder, call_tool
from order_desk.settings import DemoSettings

MARGIN = 0.1
_ONE_SIDED = 1.645
"""One-sided 95 % quantile of the normal distribution, for the error of a measured difference."""
BETTER_STEPS = (1, 2, 4, 6, 9, 12, 16, 20)
WORSE_STEPS = (1, 2, 3, 4, 6, 8)
NOISES = (0.001, 0.003, 0.01, 0.02)
MORE_SFT_STEPS = (5, 15, 40)
STYLE_STEPS = (15, 40, 100)
RIGHT_SHARES = {"more right": 0.8, "as right": 0.25, "less right": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCandidate:
    """A candidate: what it was made to be, and its weights."""

    kind: str
    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """A candidate with replay's prediction and the success that was measured afterwards."""

    kind: str
    name: str
    superiority: str
    non_inferiority: str
    reasons: tuple[str, ...]
    predicted: float | None
    lower: float | None
    upper: float | None
    sufficient: bool
    effective_sample_size: float | None
    mean_weight: float | None
    measured: float
    measured_error: float
    """Standard error of the measured difference."""

    @property
    def covered(self) -> bool | None:
        """True when the interval holds the measured difference; None on thin evidence."""
        if not self.sufficient:
            return None
        if self.predicted is None or self.lower is None or self.upper is None:
            return None
        noise = _ONE_SIDED * self.measured_error
        below = math.hypot(self.predicted - self.lower, noise)
        above = math.hypot(self.upper - self.predicted, noise)
        return self.predicted - below <= self.measured <= self.predicted + above

    def confirmed(self) -> list[bool]:
        """Return, for each decided verdict, whether the measured difference confirms it."""
        return [
            (self.measured > threshold) == (verdict == Verdict.PASS)
            for verdict, threshold in ((self.superiority, 0.0), (self.non_inferiority, -MARGIN))
            if verdict in (Verdict.PASS, Verdict.FAIL)
        ]


# --- candidates ---


def made_candidates(start: Path, folder: Path, seeds: Sequence[int]) -> Iterator[MadeCandidate]:
    """Make all candidates from the weights at `start`."""
    for seed in seeds:
        yield from _trained(start, folder, "better", BETTER_STEPS, seed)
    yield from _trained(start, folder, "worse", WORSE_STEPS, seeds[0])
    for number, noise in enumerate(NOISES):
        yield from _noisy(start, folder, noise, number)
    logs = [conversation_of(order, random.Random(9)) for order in _orders("more", 9, 400)]
    yield from _supervised(start, folder, "equal", "logs", logs, MORE_SFT_STEPS)
    for label, share in RIGHT_SHARES.items():
        styled = [_styled(order, share, random.Random(n)) for n, order in _numbered("style", 400)]
        yield from _supervised(start, folder, "style", label, styled, STYLE_STEPS)


def _trained(
    start: Path, folder: Path, kind: str, steps: Sequence[int], seed: int
) -> Iterator[MadeCandidate]:
    settings = OnlineSettings(lag=0)
    learner = OnlineLearner(start, settings)
    served, rng = ServedModel.open(start), random.Random(seed)
    customers = CustomerStream(name=f"train-{kind}", seed=seed)
    for step in range(1, max(steps) + 1):
        sessions = serve(served, customers.orders(settings.batch), step, seed * 1000 + step)
        for session in sessions:
            right = session.episode.reward
            session.rating = right if kind == "better" else 1.0 - right
            if rng.random() < settings.wrong_share:
                session.rating = 1.0 - session.rating
        learner.step(sessions)
        target = folder / f"{kind}-{seed}-{step}"
        save_model(learner.model, target, tokenizer_from=start)
        served = ServedModel.open(target)
        if step in steps:
            yield MadeCandidate(kind=kind, name=f"seed {seed}, {step} steps", path=target)


def _noisy(start: Path, folder: Path, noise: float, number: int) -> Iterator[MadeCandidate]:
    model, target = load_model(start), folder / f"noise-{number}"
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for weights in model.parameters():
            weights += noise * weights.std() * torch.randn(weights.shape, generator=generator)
    save_model(model, target, tokenizer_from=start)
    yield MadeCandidate(kind="equal", name=f"noise {noise:g}", path=target)


def _supervised(
    start: Path,
    folder: Path,
    kind: str,
    label: str,
    conversations: Sequence[list[dict[str, object]]],
    steps: Sequence[int],
) -> Iterator[MadeCandidate]:
    served, demo = ServedModel.open(start), DemoSettings()
    rows = [
        conversation_row(each, TOOLS, served.template, served.tokenizer) for each in conversations
    ]
    for count in steps:
        model, target = load_model(start), folder / f"{kind}-{label}-{count}".replace(" ", "-")
        rules = SftRules(
            steps=count, batch=demo.sft_batch, learning_rate=demo.sft_learning_rate / 10, seed=1
        )
        train_on_rows(model, rows, rules)
        save_model(model, target, tokenizer_from=start)
        yield MadeCandidate(kind=kind, name=f"{label}, {count} steps", path=target)


def _styled(order: CustomerOrder, right: float, rng: random.Random) -> list[dict[str, object]]:
    """Return a session in another way of writing, by a clerk who is right with a probability."""
    wanted = 1.0 if rng.random() < right else 0.0
    logged = logged_episode(order, rng)
    while logged.reward != wanted:
        logged = logged_episode(order, rng)
    calls = [_respelled(order, call) for call in logged.calls]
    messages: list[dict[str, object]] = messages_of(replace(logged, calls=tuple(calls)))
    return messages


def _respelled(order: CustomerOrder, call: LoggedCall) -> LoggedCall:
    arguments = json.loads(call.arguments)
    if "expression" in arguments:
        left, right = arguments["expression"].split("*")
        arguments = {"expression": f"{right} * {left}"}
    text = json.dumps(arguments, separators=(",", ":"))
    reply = call_tool(order, call.name, text)
    return LoggedCall(name=call.name, arguments=text, reply=reply.text, ok=reply.ok)


def _orders(name: str, seed: int, count: int) -> list[CustomerOrder]:
    return CustomerStream(name=name, seed=seed).orders(count)


def _numbered(name: str, count: int) -> Iterator[tuple[int, CustomerOrder]]:
    return iter(enumerate(_orders(name, 1, count)))


# --- judgement ---


def logged_trajectories(sessions: Sequence[ServedSession]) -> list[SampledTrajectory]:
    """Return the log as replay reads it: sessions with a redaction have no token ids."""
    return [_logged(number, session) for number, session in enumerate(sessions)]


def _logged(number: int, session: ServedSession) -> SampledTrajectory:
    redacted = not session.episode.order.message.endswith("?")
    return SampledTrajectory(
        tenant_id="acme",
        trajectory_id=f"t{number:05d}",
        task_id=session.episode.order.task_id,
        reward=session.episode.reward,
        generations=tuple(
            SampledGeneration(
                event_id=f"t{number:05d}-{place}",
                prompt_token_ids=None if redacted else turn.prompt_ids,
                output_token_ids=None if redacted else turn.output_ids,
                output_logprobs=None if redacted else turn.logprobs,
                token_fidelity="context_changed" if redacted else "exact",
            )
            for place, turn in enumerate(session.turns)
        ),
    )


@dataclass(frozen=True, slots=True)
class WeightsScorer:
    """Scores tokens with the trainer's model, in this process; see `atdp.replay.scoring.Scorer`."""

    model: CausalLM

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `Scorer`."""
        return [self._scored(np.array(sequence, np.int64)) for sequence in sequences]

    def _scored(self, tokens: np.typing.NDArray[np.int64]) -> Floats:
        chosen = np.arange(len(tokens)) > 0
        row = Row(tokens=tokens, trained=chosen, logprobs=np.zeros(len(tokens), np.float32))
        return np.concatenate([[np.nan], row_logprobs(self.model, row, chosen)]).astype(np.float64)


class Judge:
    """Judges candidates against `v1` on one log."""

    def __init__(self, start: Path, log: Sequence[SampledTrajectory]) -> None:
        self._paths = {"v1": start}
        self._dataset = PinnedDataset(name="log", trajectories=log)
        self._scored: dict[tuple[str, tuple[int, ...]], Floats] = {}

    def report(self, candidate: MadeCandidate, config: ReplayConfig) -> ReplayReport:
        """Return the report of one evaluation."""
        self._paths["candidate"] = candidate.path
        return replay(
            self._dataset,
            candidate=PolicyVersion(model="orderdesk", version="candidate", url=""),
            baseline=PolicyVersion(model="orderdesk", version="v1", url=""),
            config=config,
            open_scorer=self._open,
        )

    @contextmanager
    def _open(self, policy: PolicyVersion, _config: ReplayConfig) -> Iterator[WeightsScorer]:
        yield WeightsScorer(load_model(self._paths[policy.version]))


def judged(
    candidate: MadeCandidate, judge: Judge, before: Sequence[float], after: Sequence[float]
) -> JudgedCandidate:
    """Return a candidate with both verdicts; `before`, `after`: rewards of measured sessions."""
    report = judge.report(candidate, ReplayConfig())
    tolerant = judge.report(candidate, ReplayConfig(mode="non_inferiority", margin=MARGIN))
    decisive = report.evaluation.decisive(report.inputs.config)
    difference = decisive.difference if decisive else None
    weights = report.evaluation.candidate_weights
    return JudgedCandidate(
        kind=candidate.kind,
        name=candidate.name,
        superiority=report.verdict.value,
        non_inferiority=tolerant.verdict.value,
        reasons=tuple(reason.code for reason in report.reasons),
        predicted=difference.estimate if difference else None,
        lower=difference.lower if difference else None,
        upper=difference.upper if difference else None,
        sufficient=THIN_EVIDENCE.isdisjoint(reason.code for reason in report.reasons),
        effective_sample_size=weights.least_ess if weights else None,
        mean_weight=weights.mean_weight if weights else None,
        measured=float(np.mean(after) - np.mean(before)),
        measured_error=math.hypot(*(float(np.std(x)) / math.sqrt(len(x)) for x in (before, after))),
    )


def rewards_of(path: Path, count: int) -> list[float]:
    """Return the rewards of a version with fresh customers, the same for all versions."""
    served = serve(ServedModel.open(path), _orders("fresh", 3, count), 0, 3)
    return [session.episode.reward for session in served]


# --- output ---


def summary(rows: Sequence[JudgedCandidate]) -> dict[str, float | int]:
    """Return the figures over all candidates."""
    confirmed = [each for row in rows for each in row.confirmed()]
    covered = [row.covered for row in rows if row.covered is not None]
    verdicts = [verdict for row in rows for verdict in (row.superiority, row.non_inferiority)]
    return {
        "candidates": len(rows),
        "decided": len(confirmed),
        "sign_right": float(np.mean(confirmed)) if confirmed else float("nan"),
        "intervals": len(covered),
        "coverage": float(np.mean(covered)) if covered else float("nan"),
        "inconclusive": verdicts.count(Verdict.INCONCLUSIVE) / len(verdicts),
    }


_HELD = {True: "yes", False: "no", None: ""}


def markdown(rows: Sequence[JudgedCandidate]) -> str:
    """Return the table of the documentation."""
    head = "| candidate | better | not worse by .1 | predicted | interval | ESS | measured | held |"
    lines = [head, "| -- | -- | -- | -- | -- | -- | -- | -- |"]
    for row in rows:
        interval = "" if row.lower is None else f"[{row.lower:+.3f}, {row.upper:+.3f}]"
        predicted = "" if row.predicted is None else f"{row.predicted:+.3f}"
        size = "" if row.effective_sample_size is None else f"{row.effective_sample_size:.0f}"
        verdicts = f"{row.superiority} | {row.non_inferiority}"
        lines.append(
            f"| {row.kind}: {row.name} | {verdicts} | {predicted} | {interval} | {size} "
            f"| {row.measured:+.3f} ± {_ONE_SIDED * row.measured_error:.3f} "
            f"| {_HELD[row.covered]} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make, judge and measure the candidates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="keep the warm start and the candidates here")
    parser.add_argument("--log", type=int, default=1000, help="sessions of the log")
    parser.add_argument("--measured", type=int, default=3000, help="sessions of each measurement")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--most", type=int, default=10_000, help="candidates at most")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder = given.folder or Path(mkdtemp(prefix="judgement-"))
    folder.mkdir(parents=True, exist_ok=True)
    start = warm_start(folder, given.seeds[0])
    log = logged_trajectories(serve(ServedModel.open(start), _orders("log", 5, given.log), 1, 5))
    before = rewards_of(start, given.measured)
    print(f"v1 answers {np.mean(before):.1%} of the customers rightly", flush=True)
    judge, rows = Judge(start, log), []
    for number, candidate in enumerate(made_candidates(start, folder, given.seeds), 1):
        if number > given.most:
            break
        began = time.monotonic()
        row = judged(candidate, judge, before, rewards_of(candidate.path, given.measured))
        rows.append(row)
        print(f"{number:3d} {json.dumps(asdict(row))} {time.monotonic() - began:.0f} s", flush=True)
    if given.markdown:
        given.markdown.write_text(markdown(rows))
    figures = summary(rows)
    print(json.dumps(figures))
    print(
        f"sign right {figures['sign_right']:.1%} of {figures['decided']} decided · "
        f"coverage {figures['coverage']:.1%} of {figures['intervals']} · "
        f"INCONCLUSIVE {figures['inconclusive']:.1%}"
    )


if __name__ == "__main__":
    main()
