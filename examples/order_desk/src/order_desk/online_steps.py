"""The steps of the online demo that need the running stack."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from atdp.runtime import Home
from order_desk.agent_framework import AgentFramework
from order_desk.bad_release import BadRelease
from order_desk.customers import CustomerStream
from order_desk.demo_console import Advance, DemoConsole
from order_desk.demo_platform import DemoPlatform, open_platform
from order_desk.first_version import put_first_version_live
from order_desk.learning_process import LearningProcess, NotedEvent, in_words, learning
from order_desk.online_evidence import collect_online_evidence, wait_for_rewards
from order_desk.online_settings import OnlineDemoSettings
from order_desk.online_summary import OnlineOutcome
from order_desk.online_users import UserCrowd
from order_desk.settings import CONSENTING, MODEL
from order_desk.user_traffic import MakeAgent, TrafficPlan, UserTraffic

_ROUND_S = 0.5
"""Time between two looks at the traffic."""
_NOTE_EVERY = 400
"""Sessions between two remarks about success."""
_SHOWN = ("gate", "canary", "promoted", "rolled back")
_STYLES = {"promoted": "green", "rolled back": "yellow", "bad release": "red"}


def make_agent(framework: AgentFramework) -> MakeAgent:
    """Return the agent's constructor; only the chosen framework is imported."""
    if framework is AgentFramework.LANGGRAPH:
        from order_desk.langgraph_desk import LangGraphDesk

        return LangGraphDesk
    from order_desk.agents_sdk_desk import AgentsSdkDesk

    return AgentsSdkDesk


def serve_and_learn(
    home: Home, settings: OnlineDemoSettings, console: DemoConsole, began_s: float
) -> OnlineOutcome:
    """Run the steps that need the running stack; close its clients before returning.

    `began_s` is the monotonic time at which the demo began.
    """
    start = settings.start
    with (
        open_platform(home, concurrency=settings.places) as platform,
        ThreadPoolExecutor(max_workers=1) as beside,
    ):
        # The framework takes seconds to import; the warm start leaves a core for it.
        agent = beside.submit(make_agent, settings.framework)
        clerks = CustomerStream("log", start.seed)
        logged = put_first_version_live(platform, start, console, clerks, {CONSENTING: 1.0})
        first = platform.flow.state().lineage[-1]
        title = "Users come all the time; `atdp learn` trains and releases beside them"
        console.step(2, title)
        settings = settings.begun_after(time.monotonic() - began_s)
        traffic = UserTraffic(_plan(platform, settings, agent.result()), _crowd(settings))
        bad = BadRelease(platform=platform, settings=settings, first=first)
        with (
            closing(bad),
            learning(
                home,
                settings.learn_arguments,
                clock=lambda: traffic.seconds,
                on_event=lambda event: _show(event, console),
            ) as learner,
        ):
            traffic.begin()
            learner.wait_until_begun()
            _watch(traffic, learner, bad, settings, console)
            learner.wait_for("candidate", settings.patience_s)
        console.step(3, "Wait for the last sessions to end; compare with the truth")
        time.sleep(settings.idle_end_s)
        wait_for_rewards(platform)
        evidence = collect_online_evidence(platform)
    return OnlineOutcome(
        logged_success=logged,
        first_version=first,
        sessions=tuple(sorted(traffic.served, key=lambda each: each.ended_s)),
        events=tuple(learner.events),
        bad_version=bad.version if bad.released else None,
        evidence=evidence,
    )


def _watch(
    traffic: UserTraffic,
    learner: LearningProcess,
    bad: BadRelease,
    settings: OnlineDemoSettings,
    console: DemoConsole,
) -> None:
    """Watch until the last user has gone; make the mistake when it is due."""
    due = settings.bad_release_at
    noted = 0
    with console.bar("users served", settings.sessions) as advance:
        shown = 0
        while traffic.running:
            shown = _advance(traffic, advance, shown)
            learner.check()
            if shown // _NOTE_EVERY > noted:
                noted = shown // _NOTE_EVERY
                _note_success(traffic, console)
            done = max(shown / settings.sessions, traffic.seconds / settings.longest_s)
            is_due = due is not None and done >= due and not bad.released
            if is_due:
                _try_bad_release(bad, traffic, learner, console, settings.bad_release_from)
            time.sleep(_ROUND_S)
        _advance(traffic, advance, shown)


def _advance(traffic: UserTraffic, advance: Advance, shown: int) -> int:
    now = len(traffic.served)
    advance(now - shown)
    return now


def _note_success(traffic: UserTraffic, console: DemoConsole) -> None:
    recent = [session.right for session in traffic.served[-_NOTE_EVERY:]]
    console.note(
        f"{traffic.seconds:4.0f} s: {sum(recent) / len(recent):.1%} of the last "
        f"{len(recent)} users got the right answer"
    )


def _try_bad_release(
    bad: BadRelease,
    traffic: UserTraffic,
    learner: LearningProcess,
    console: DemoConsole,
    least_success: float,
) -> None:
    recent = [session.right for session in traffic.served[-_NOTE_EVERY // 2 :]]
    bad.go_on(serves_well=sum(recent) >= least_success * len(recent))
    if not bad.released:
        return
    event = NotedEvent(at_s=traffic.seconds, kind="bad release", fields={"version": bad.version})
    learner.events.append(event)
    _show(event, console)


def _show(event: NotedEvent, console: DemoConsole) -> None:
    if event.kind in _SHOWN or event.kind in _STYLES:
        style = _STYLES.get(event.kind, "")
        console.note(f"{event.at_s:4.0f} s: {in_words(event)}", style=style)


def _plan(platform: DemoPlatform, settings: OnlineDemoSettings, agent: MakeAgent) -> TrafficPlan:
    return TrafficPlan(
        gateway=platform.home.endpoints()["gateway"],
        api_key=platform.tenants[CONSENTING].api_key,
        model=MODEL,
        make_agent=agent,
        arrivals_per_s=settings.arrivals_per_s,
        places=settings.places,
        sessions=settings.sessions,
        longest_s=settings.longest_s,
    )


def _crowd(settings: OnlineDemoSettings) -> UserCrowd:
    return UserCrowd(
        seed=settings.start.seed,
        people=settings.people,
        rated_share=settings.rated_share,
        wrong_share=settings.wrong_share,
        saboteur_share=settings.saboteur_share,
    )
