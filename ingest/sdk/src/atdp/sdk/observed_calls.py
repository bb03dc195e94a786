"""The recording of one call of an observed function: a tool call and its outcome."""

import inspect
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from atdp.schemas import SideEffect
from atdp.sdk.envelope import failure_of
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory

MAX_YIELDED = 1000
"""Items of a generator that the outcome keeps; it counts the items beyond them."""

_ANY_POSITIONAL = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
_ANY_KEYWORD = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)


class ObservedTool:
    """An observed function; records the start of each of its calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        side_effect: SideEffect,
        trajectory: Trajectory | None,
    ) -> None:
        """Record into `trajectory`, or into the ambient one where it is None."""
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # some built-in functions have no signature
            self._signature = inspect.Signature([_ANY_POSITIONAL, _ANY_KEYWORD])
        self._name = name
        self._side_effect: SideEffect = side_effect
        self._trajectory = trajectory

    def call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> "ObservedCall | None":
        """Record the start of a call; return None where no trajectory is running."""
        trajectory = self._trajectory or current_trajectory()
        if trajectory is None:
            return None
        return ObservedCall(
            trajectory, self._name, self._side_effect, self._named(arguments, keywords)
        )

    def _named(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        try:
            named = dict(self._signature.bind(*arguments, **keywords).arguments)
        except TypeError:  # the call itself will raise this to its caller
            return {"args": list(arguments), "kwargs": keywords}
        return {key: value for key, value in named.items() if key not in {"self", "cls"}}


class ObservedCall:
    """One call of an observed function, from its start to its outcome."""

    def __init__(
        self, trajectory: Trajectory, name: str, side_effect: SideEffect, arguments: dict[str, Any]
    ) -> None:
        """Record the tool call."""
        self._trajectory = trajectory
        self._name = name
        self._call_id = f"call-{uuid.uuid4().hex[:12]}"
        self._event_id = trajectory.tool_call(
            name, arguments, call_id=self._call_id, side_effect=side_effect
        )
        self._started = time.perf_counter_ns()

    def done(self, result: object) -> None:
        """Record that the call returned `result`."""
        latency_us = (time.perf_counter_ns() - self._started) // 1000
        self._trajectory.outcome(
            "null" if result is None else result,
            call_id=self._call_id,
            name=self._name,
            latency_us=latency_us,
            ended_at=datetime.now(UTC),
            caused_by=(self._event_id,),
        )

    def failed(self, error: BaseException) -> None:
        """Record that the call raised `error`."""
        latency_us = (time.perf_counter_ns() - self._started) // 1000
        failure = failure_of(error)
        self._trajectory.outcome(
            f"{failure.type}: {failure.message}",
            call_id=self._call_id,
            name=self._name,
            error=failure,
            latency_us=latency_us,
            ended_at=datetime.now(UTC),
            caused_by=(self._event_id,),
            status="error" if isinstance(error, Exception) else "cancelled",
        )


class YieldedItems:
    """The items that a generator yielded, up to a bound."""

    def __init__(self) -> None:
        """Hold no item yet."""
        self._items: list[Any] = []
        self._more = 0

    def add(self, item: object) -> None:
        """Keep an item, or only count it beyond the bound."""
        if len(self._items) < MAX_YIELDED:
            self._items.append(item)
        else:
            self._more += 1

    @property
    def result(self) -> list[Any]:
        """The items, followed by a text with the number of items beyond the bound."""
        return [*self._items, f"… {self._more} more items"] if self._more else self._items
