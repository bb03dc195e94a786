"""Continuous traffic: users arrive and are served, whatever the platform does meanwhile.

The traffic runs in a thread with an event loop of its own, from `begin` until `end`. Users arrive
as a Poisson process. Those for whom no place is free wait, so that a slow machine serves the same
users later.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx
import openai

from order_desk.answered_calls import AnsweredCall, answered_calls, observed_client
from order_desk.online_users import UserCrowd, UserVisit
from order_desk.order_task import judge
from order_desk.rating_button import RatingButton, RatingFate
from order_desk.shown_answer import ChatAgent, ShownAnswer

_RATING_DELAY_S = 2.0
"""Mean time between the answer and the press of the rating button."""
_HTTP_TIMEOUT_S = 60.0

MakeAgent = Callable[[openai.AsyncOpenAI, str], ChatAgent]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSession:
    """One served user, with the truth that only the demo knows."""

    number: int
    of_saboteur: bool
    ended_s: float
    """Seconds since the traffic began."""
    right: bool
    """True when the answer was the right total."""
    calls: tuple[AnsweredCall, ...]
    rated_up: bool | None
    rating_fate: RatingFate | None
    failure: str | None = None

    @property
    def version(self) -> str | None:
        """The weight version that served it; None when no call was answered."""
        return self.calls[0].version if self.calls else None

    @property
    def is_mixed(self) -> bool:
        """True when its calls met several versions, or became several trajectories."""
        return len({(call.version, call.trajectory) for call in self.calls}) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """The rate and the size of the traffic."""

    gateway: str
    api_key: str
    model: str
    make_agent: MakeAgent
    arrivals_per_s: float
    places: int
    """Users served at the same time."""
    sessions: int
    """Number of users after which the traffic ends."""
    longest_s: float
    """Time after which nobody new comes."""


@dataclass(slots=True)
class UserTraffic:
    """The traffic of one demo; `served` grows while it runs."""

    plan: TrafficPlan
    crowd: UserCrowd
    served: list[UserSession] = field(default_factory=list)
    _thread: threading.Thread = field(init=False, repr=False)
    _error: BaseException | None = field(init=False, default=None)
    _began_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        """Prepare the thread; nobody comes before `begin`."""
        self._thread = threading.Thread(target=self._run, name="user-traffic", daemon=True)

    def begin(self) -> None:
        """Let the first user come."""
        self._began_s = time.monotonic()
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Seconds since the traffic began; 0 before."""
        return time.monotonic() - self._began_s if self._began_s else 0.0

    @property
    def running(self) -> bool:
        """True while users come or are served.

        Raises:
            Exception: the error that ended the traffic.
        """
        if self._error is not None:
            raise self._error
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve_all())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._error = error

    async def _serve_all(self) -> None:
        plan = self.plan
        places = asyncio.Semaphore(plan.places)
        async with (
            observed_client(plan.gateway, plan.api_key) as client,
            httpx.AsyncClient(timeout=_HTTP_TIMEOUT_S, trust_env=False) as http,
            asyncio.TaskGroup() as users,
        ):
            agent = plan.make_agent(client, plan.model)
            button = RatingButton(http, plan.gateway, plan.api_key)
            due_s = 0.0
            for _ in range(plan.sessions):
                due_s += self.crowd.pause_s(plan.arrivals_per_s)
                await asyncio.sleep(max(0.0, due_s - self.seconds))
                if self.seconds > plan.longest_s:
                    break
                await places.acquire()
                visit = self.crowd.next_visit()
                users.create_task(self._serve(agent, button, visit, places.release))

    async def _serve(
        self,
        agent: ChatAgent,
        button: RatingButton,
        visit: UserVisit,
        leave: Callable[[], None],
    ) -> None:
        """Serve a user, who leaves the place after the answer and may rate it later."""
        answer, failure = ShownAnswer(text=None, response_id=None), None
        with answered_calls() as calls:
            try:
                answer = await agent.serve(visit.order)
            except openai.APIStatusError as error:
                failure = f"HTTP {error.status_code}"
            except openai.APIConnectionError as error:
                failure = f"no answer ({type(error.__cause__ or error).__name__})"
            finally:
                leave()
        fate: RatingFate | None = None
        up = None if answer.response_id is None else visit.rating(answer.text)
        ended_s = self.seconds
        if up is not None:
            await asyncio.sleep(self.crowd.pause_s(1 / _RATING_DELAY_S))
            fate = await button.press(answer, up=up, person=visit.person)
        self.served.append(
            UserSession(
                number=visit.number,
                of_saboteur=visit.of_saboteur,
                ended_s=ended_s,
                right=judge(visit.order, answer.text) == 1.0,
                calls=tuple(calls),
                rated_up=up,
                rating_fate=fate,
                failure=failure,
            )
        )


def sessions_of_one_trajectory(sessions: Sequence[UserSession]) -> bool:
    """Return True when no two sessions became the same trajectory."""
    owners = [{call.trajectory for call in session.calls} for session in sessions]
    return sum(map(len, owners)) == len(set().union(*owners))
