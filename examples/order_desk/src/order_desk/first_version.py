"""The first version of the demos' model: it learns from mediocre clerks' logs, and goes live."""

import random
from collections.abc import Mapping, Sequence

from atdp.control import read_manifest
from order_desk.customers import CustomerStream
from order_desk.demo_console import DemoConsole
from order_desk.demo_platform import DemoPlatform
from order_desk.log_emission import emit_logged_episodes
from order_desk.logged_episodes import logged_episode
from order_desk.settings import MODEL, DemoSettings
from order_desk.training import warm_start


def put_first_version_live(
    platform: DemoPlatform,
    settings: DemoSettings,
    console: DemoConsole,
    clerks: CustomerStream,
    shares: Mapping[str, float],
) -> float:
    """Emit the logs, train on them, put the first version live; return the logs' success rate.

    `shares` are the tenants with their shares of the logs; the release line serves these tenants.
    """
    rng = random.Random(f"clerks/{settings.seed}")  # noqa: S311 (a simulation)
    episodes = [
        (_tenant(shares, rng), logged_episode(order, rng))
        for order in clerks.orders(settings.logged_episodes)
    ]
    with console.bar("logged conversations, emitted with the SDK", len(episodes)) as advance:
        emit_logged_episodes(platform.tenants, episodes, platform.emitted, lambda: advance(1))
    platform.wait_until_landed()
    success = sum(episode.reward for _, episode in episodes) / len(episodes)
    console.note(f"{len(episodes)} conversations landed; {success:.1%} of them ended right")
    with console.bar_to("supervised steps", settings.sft_steps) as on_step:
        result = warm_start(platform.home, settings, on_step)
    first = result.published.version
    platform.flow.bootstrap(
        read_manifest(platform.home.weights, MODEL, first),
        tenants=tuple(shares),
        reason="first version, learned from the logs",
    )
    console.note(
        f"{MODEL} {first} learned from {result.trajectories_used} conversations and is live; "
        f"{_refusals(result.refused)}"
    )
    return success


def _refusals(refused: Mapping[str, int]) -> str:
    """Return in words how many conversations were refused, and why."""
    if not refused:
        return "none was refused"
    reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in refused.items())
    return f"refused: {reasons}"


def _tenant(shares: Mapping[str, float], rng: random.Random) -> str:
    tenants: Sequence[str] = list(shares)
    return rng.choices(tenants, weights=list(shares.values()))[0]
