"""The verdict of a cassette replay or of teacher forcing.

A replay says whether the candidate does what the recorded agent does; it cannot say whether another
way of acting is worse. So PASS means "as close to the recordings as the recorded agent is to
itself", other behaviour is INCONCLUSIVE, and only the policy `fail`, a test that nothing has
changed, gives FAIL.
"""

from collections.abc import Mapping

from atdp.replay.cassette.cassette_settings import CassetteSettings
from atdp.replay.cassette.replay_measures import Comparison
from atdp.replay.verdict import Reason, Verdict

Judgement = tuple[Verdict, tuple[Reason, ...]]


def judge_cassette_replay(
    statuses: Mapping[str, int],
    tasks: int,
    comparison: Comparison | None,
    settings: CassetteSettings,
) -> Judgement:
    """Return the verdict of replays by their statuses, and of the agreement beside the A/A one.

    `tasks` is the number of different tasks that were replayed.
    """
    replays, completed = sum(statuses.values()), statuses.get("completed", 0)
    if not replays:
        return _nothing()
    if settings.divergence == "fail":
        return _judge_equality(replays, completed, tasks, settings.min_tasks)
    shortages = []
    if completed < settings.min_coverage * replays:
        shortages.append(
            Reason(
                code="low_coverage",
                text=f"{completed} of {replays} replays reached the end of their recording, fewer "
                f"than {settings.min_coverage:.0%}; a replay that ends early says nothing about "
                "the result",
            )
        )
    verdict, reasons = judge_agreement(comparison, settings)
    if shortages:
        verdict = Verdict.INCONCLUSIVE
        reasons = tuple(reason for reason in reasons if reason.code != "as_the_recorded_agent")
    return verdict, (*shortages, *reasons)


def judge_agreement(comparison: Comparison | None, settings: CassetteSettings) -> Judgement:
    """Return the verdict of the agreement with the recordings beside the baseline's."""
    tasks = 0 if comparison is None else comparison.tasks
    if comparison is None or tasks < settings.min_tasks:
        reason = Reason(
            code="few_tasks",
            text=f"{tasks} tasks have both the candidate's and the baseline's agreement, and "
            f"{settings.min_tasks} are needed; record several attempts of one agent at each task, "
            "or name a baseline",
        )
        return Verdict.INCONCLUSIVE, (reason,)
    difference, confidence = comparison.difference, f"{1 - settings.alpha:.0%}"
    if difference.lower >= -settings.margin:
        reason = Reason(
            code="as_the_recorded_agent",
            text=f"with {confidence} confidence the agreement is at most "
            f"{max(0.0, -difference.lower):.3f} below the baseline's, "
            f"within the margin of {settings.margin:.3f}",
        )
        return Verdict.PASS, (reason,)
    reason = Reason(
        code="agreement_below_baseline",
        text=f"the agreement may be {-difference.lower:.3f} below the baseline's, more than the "
        f"margin of {settings.margin:.3f}; another way of acting need not be worse, so evaluate "
        "the candidate where it acts",
    )
    return Verdict.INCONCLUSIVE, (reason,)


def _judge_equality(replays: int, completed: int, tasks: int, min_tasks: int) -> Judgement:
    if completed < replays:
        reason = Reason(
            code="diverged",
            text=f"{replays - completed} of {replays} replays left their recording, "
            "and the policy `fail` permits none",
        )
        return Verdict.FAIL, (reason,)
    reason = Reason(code="no_divergence", text=f"all {replays} replays followed the recording")
    if tasks >= min_tasks:
        return Verdict.PASS, (reason,)
    few = Reason(
        code="few_tasks",
        text=f"{tasks} tasks could be replayed, and {min_tasks} are needed; pin recordings of more "
        "tasks, or set min_tasks",
    )
    return Verdict.INCONCLUSIVE, (few, reason)


def _nothing() -> Judgement:
    reason = Reason(
        code="nothing_replayable",
        text="no trajectory of the dataset can be replayed; the report counts the reasons",
    )
    return Verdict.INCONCLUSIVE, (reason,)
