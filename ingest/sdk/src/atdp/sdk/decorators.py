"""`@observe`: a function's calls become tool calls and outcomes of the ambient trajectory.

It works for plain, async, generator and async generator functions, and leaves their behaviour as it
is: values, exceptions, `send`, `throw` and closing pass through. A generator's outcome is the list
of the items that it yielded, recorded when it ends. Without a trajectory, ambient or explicit, the
function runs unrecorded.
"""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, cast, overload

from atdp.schemas import SideEffect
from atdp.sdk.observed_calls import ObservedTool, YieldedItems
from atdp.sdk.trajectory_handle import Trajectory

F = TypeVar("F", bound=Callable[..., Any])


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
        side_effect: the effect of a call: `none`, `read` or `write`; it limits how far a replay may
            go.
        trajectory: the trajectory to record into instead of the ambient one.
    """

    def decorate(inner: F) -> F:
        # A partial function or an object that can be called has no name of its own.
        called = str(name or getattr(inner, "__name__", type(inner).__name__))
        tool = ObservedTool(inner, called, side_effect, trajectory)
        if inspect.isasyncgenfunction(inner):
            return cast("F", _observed_async_generator(inner, tool))
        if inspect.isgeneratorfunction(inner):
            return cast("F", _observed_generator(inner, tool))
        if inspect.iscoroutinefunction(inner):
            return cast("F", _observed_coroutine(inner, tool))
        return cast("F", _observed_function(inner, tool))

    return decorate if function is None else decorate(function)


def _observed_function(function: Callable[..., Any], tool: ObservedTool) -> Callable[..., Any]:
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


def _observed_coroutine(function: Callable[..., Any], tool: ObservedTool) -> Callable[..., Any]:
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


def _observed_generator(function: Callable[..., Any], tool: ObservedTool) -> Callable[..., Any]:
    @functools.wraps(function)
    def observed(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        call = tool.call(arguments, keywords)
        if call is None:
            return (yield from function(*arguments, **keywords))
        yielded = YieldedItems()
        try:
            value = yield from _relay(function(*arguments, **keywords), yielded)
        except GeneratorExit:  # the consumer stopped, which is no failure of the tool
            call.done(yielded.result)
            raise
        except BaseException as error:
            call.failed(error)
            raise
        call.done(yielded.result)
        return value

    return observed


def _relay(inner: Generator[Any, Any, Any], yielded: YieldedItems) -> Generator[Any, Any, Any]:
    """Do `yield from inner` (by PEP 380's expansion) and keep the items that pass."""
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


def _observed_async_generator(
    function: Callable[..., Any], tool: ObservedTool
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def observed(*arguments: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
        call = tool.call(arguments, keywords)
        inner = function(*arguments, **keywords)
        yielded = YieldedItems()
        try:
            item = await anext(inner)
            while True:
                yielded.add(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed to the generator
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
