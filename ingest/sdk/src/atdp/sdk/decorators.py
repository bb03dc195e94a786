"""`@observe`: a function's calls become tool calls and outcomes of the ambient trajectory.

Works for plain, async, generator and async generator functions, and leaves their behaviour as it
is: values, exceptions, `send`, `throw` and closing pass through. A generator's outcome is the list
of what it yielded, recorded when it ends. Without a trajectory, ambient or explicit, the function
just runs.
"""

import functools
import inspect
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from datetime import UTC, datetime
from typing import Any, TypeVar, cast, overload

from atdp.schemas import SideEffect
from atdp.sdk.envelope import failure_of
from atdp.sdk.trajectory_handle import Trajectory, current_trajectory

F = TypeVar("F", bound=Callable[..., Any])
MAX_YIELDED = 1000  # items of a generator that the outcome keeps; it says how many more there were

_ANY_POSITIONAL = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
_ANY_KEYWORD = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)


@overload
def observe(function: F, /) -> F: ...
@overload
def observe(
    *,
    name: str | None = None,
    side_effect: SideEffect = "unknown",
    trajectory: Trajectory | None = None,
) -> Callable[[F], F]: ...
def observe(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    side_effect: SideEffect = "unknown",
    trajectory: Trajectory | None = None,
) -> F | Callable[[F], F]:
    """Record every call of a function as a tool call and its outcome.

    Args:
        function: when used without parentheses.
        name: the tool's name; default: the function's.
        side_effect: what a call may change: `none`, `read`, `write`; decides how far a replay may
            go.
        trajectory: record into this one instead of the ambient one.
    """

    def decorate(inner: F) -> F:
        tool = _Tool(inner, name or inner.__name__, side_effect, trajectory)
        if inspect.isasyncgenfunction(inner):
            return cast("F", _observed_async_generator(inner, tool))
        if inspect.isgeneratorfunction(inner):
            return cast("F", _observed_generator(inner, tool))
        if inspect.iscoroutinefunction(inner):
            return cast("F", _observed_coroutine(inner, tool))
        return cast("F", _observed_function(inner, tool))

    return decorate if function is None else decorate(function)


class _Tool:
    """What is known of an observed function; opens a call record per call."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        side_effect: SideEffect,
        trajectory: Trajectory | None,
    ) -> None:
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # some built-in functions do not say
            self._signature = inspect.Signature([_ANY_POSITIONAL, _ANY_KEYWORD])
        self._name = name
        self._side_effect: SideEffect = side_effect
        self._trajectory = trajectory

    def call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> "_Call | None":
        trajectory = self._trajectory or current_trajectory()
        if trajectory is None:
            return None
        return _Call(trajectory, self._name, self._side_effect, self._named(arguments, keywords))

    def _named(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        try:
            named = dict(self._signature.bind(*arguments, **keywords).arguments)
        except TypeError:  # the call itself will raise this to its caller
            return {"args": list(arguments), "kwargs": keywords}
        return {key: value for key, value in named.items() if key not in {"self", "cls"}}


class _Call:
    """One call under way."""

    def __init__(
        self, trajectory: Trajectory, name: str, side_effect: SideEffect, arguments: dict[str, Any]
    ) -> None:
        self._trajectory = trajectory
        self._name = name
        self._call_id = f"call-{uuid.uuid4().hex[:12]}"
        self._event_id = trajectory.tool_call(
            name, arguments, call_id=self._call_id, side_effect=side_effect
        )
        self._started = time.perf_counter_ns()

    def done(self, result: object) -> None:
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


class _Yielded:
    """What a generator yielded, up to a bound."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._more = 0

    def add(self, item: object) -> None:
        if len(self._items) < MAX_YIELDED:
            self._items.append(item)
        else:
            self._more += 1

    @property
    def result(self) -> list[Any]:
        return [*self._items, f"… {self._more} more items"] if self._more else self._items


def _observed_function(function: Callable[..., Any], tool: _Tool) -> Callable[..., Any]:
    @functools.wraps(function)
    def observed(*arguments: Any, **keywords: Any) -> Any:
        call = tool.call(arguments, keywords)
        if call is None:
            return function(*arguments, **keywords)
        try:
            result = function(*arguments, **keywords)
        except BaseException as error:
            call.failed(error)
            raise
        call.done(result)
        return result

    return observed


def _observed_coroutine(function: Callable[..., Any], tool: _Tool) -> Callable[..., Any]:
    @functools.wraps(function)
    async def observed(*arguments: Any, **keywords: Any) -> Any:
        call = tool.call(arguments, keywords)
        if call is None:
            return await function(*arguments, **keywords)
        try:
            result = await function(*arguments, **keywords)
        except BaseException as error:
            call.failed(error)
            raise
        call.done(result)
        return result

    return observed


def _observed_generator(function: Callable[..., Any], tool: _Tool) -> Callable[..., Any]:
    @functools.wraps(function)
    def observed(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        call = tool.call(arguments, keywords)
        if call is None:
            return (yield from function(*arguments, **keywords))
        yielded = _Yielded()
        try:
            value = yield from _relay(function(*arguments, **keywords), yielded)
        except GeneratorExit:  # the consumer had enough: no failure of the tool
            call.done(yielded.result)
            raise
        except BaseException as error:
            call.failed(error)
            raise
        call.done(yielded.result)
        return value

    return observed


def _relay(inner: Generator[Any, Any, Any], yielded: _Yielded) -> Generator[Any, Any, Any]:
    """`yield from inner`, noting what passes (PEP 380's expansion)."""
    try:
        item = next(inner)
        while True:
            yielded.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed to the generator, which decides
                item = inner.throw(error)
            else:
                item = inner.send(sent)
    except StopIteration as stop:
        return stop.value


def _observed_async_generator(function: Callable[..., Any], tool: _Tool) -> Callable[..., Any]:
    @functools.wraps(function)
    async def observed(*arguments: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
        call = tool.call(arguments, keywords)
        inner = function(*arguments, **keywords)
        yielded = _Yielded()
        try:
            item = await anext(inner)
            while True:
                yielded.add(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed to the generator, which decides
                    item = await inner.athrow(error)
                else:
                    item = await inner.asend(sent)
        except (StopAsyncIteration, GeneratorExit) as stop:
            if call is not None:
                call.done(yielded.result)
            if isinstance(stop, GeneratorExit):
                raise
        except BaseException as error:
            if call is not None:
                call.failed(error)
            raise

    return observed
