"""Bytes in flight are granted in the order of the requests, within a time-out."""

import asyncio
from collections.abc import Awaitable, Callable

from atdp.gateway.event_log.byte_limiter import ByteLimiter


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 10)

    asyncio.run(bounded())


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_large_request_is_not_overtaken_by_small_ones_that_would_fit() -> None:
    async def scenario() -> None:
        limiter, order = ByteLimiter(10, timeout_s=5), []

        async def ask(name: str, size: int) -> None:
            assert await limiter.acquire(size)
            order.append(name)

        await ask("first", 6)
        tasks = [
            asyncio.create_task(ask(name, size)) for name, size in (("large", 8), ("small", 1))
        ]
        await settled()
        assert order == ["first"]
        limiter.release(6)
        await asyncio.gather(*tasks)
        assert order == ["first", "large", "small"]

    run(scenario)


def test_a_request_that_waits_too_long_gets_nothing_and_the_next_one_passes() -> None:
    async def scenario() -> None:
        limiter = ByteLimiter(10, timeout_s=0.05)
        assert await limiter.acquire(6)
        large = asyncio.create_task(limiter.acquire(8))
        await settled()
        small = asyncio.create_task(limiter.acquire(4))
        assert not await large
        assert await small
        limiter.release(6)
        limiter.release(4)
        assert await limiter.acquire(10)

    run(scenario)


def test_a_cancelled_request_keeps_nothing() -> None:
    async def scenario() -> None:
        limiter = ByteLimiter(10, timeout_s=5)
        assert await limiter.acquire(10)
        waiting = asyncio.create_task(limiter.acquire(10))
        await settled()
        limiter.release(10)  # the bytes are granted, and the task is cancelled before it runs
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await limiter.acquire(10)

    run(scenario)


def test_a_request_larger_than_the_limit_passes_alone() -> None:
    async def scenario() -> None:
        limiter = ByteLimiter(10, timeout_s=0.01)
        assert await limiter.acquire(50)
        assert not await limiter.acquire(1)

    run(scenario)
