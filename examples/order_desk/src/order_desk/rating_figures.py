"""Ratings against the truth: how many are wrong, which count, and whether rated sessions differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from order_desk.online_evidence import LandedSession
from order_desk.online_settings import SABOTEUR_SHARE
from order_desk.user_traffic import UserSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFigures:
    """Counts of ratings and rewards; shares are of 0 … 1."""

    rated: int
    """Sessions that users other than the saboteur have rated."""
    rated_share: float
    wrong_share: float
    """Share of these ratings that do not fit the truth."""
    success_of_rated: float
    success_of_unrated: float
    saboteur_ratings: int
    refused_at_the_door: int
    """Ratings that the gateway did not take, because one person sent too many."""
    rewards: int
    """Sessions that have a reward."""
    saboteur_rewards: int
    """Rewards of the saboteur's sessions."""
    saboteur_share_of_rewards: float
    saboteur_bound: float
    """Greatest share of the rewards that the rules let one person decide."""
    wrong_rewards: int
    """Rewards that do not fit the truth."""


def rating_figures(
    sessions: Sequence[UserSession], landed: Mapping[str, LandedSession]
) -> RatingFigures:
    """Return the figures of served sessions and what has landed of them."""
    others = [each for each in sessions if not each.of_saboteur]
    rated = [each for each in others if each.rating_fate == "accepted"]
    unrated = [each for each in others if each.rated_up is None]
    rewarded = [
        (each, reward) for each in sessions if (reward := _reward(each, landed)) is not None
    ]
    of_saboteur = sum(each.of_saboteur for each, _ in rewarded)
    return RatingFigures(
        rated=len(rated),
        rated_share=_share(len(rated), len(others)),
        wrong_share=_share(sum(each.rated_up is not each.right for each in rated), len(rated)),
        success_of_rated=_share(sum(each.right for each in rated), len(rated)),
        success_of_unrated=_share(sum(each.right for each in unrated), len(unrated)),
        saboteur_ratings=sum(each.of_saboteur and each.rated_up is not None for each in sessions),
        refused_at_the_door=sum(each.rating_fate == "limited" for each in sessions),
        rewards=len(rewarded),
        saboteur_rewards=of_saboteur,
        saboteur_share_of_rewards=_share(of_saboteur, len(rewarded)),
        saboteur_bound=SABOTEUR_SHARE,
        wrong_rewards=sum((reward >= 0.5) is not each.right for each, reward in rewarded),
    )


def _reward(session: UserSession, landed: Mapping[str, LandedSession]) -> float | None:
    known = landed.get(session.calls[0].trajectory) if session.calls else None
    return None if known is None else known.reward


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
