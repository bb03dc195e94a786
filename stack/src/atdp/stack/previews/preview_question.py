"""Previews of policies on the stack of a home, for the command line and for HTTP."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from atdp.stack.errors import StackError

if TYPE_CHECKING:
    from atdp.governance import (
        DecidedPolicies,
        PolicyDocument,
        PreviewReport,
        SampleSource,
        SampleWindow,
    )
    from atdp.runtime import Home, Principal

_AGO: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS: Final[Mapping[str, str]] = {
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}
_VERSION: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,62})@([0-9]{1,10})(?:#([0-9a-f]{1,64}))?")


class WrongPreviewQuestion(StackError):
    """A question for a preview cannot be understood."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewQuestion:
    """The wish of a person. The draft is `text`, or a version `draft` (`ID@VERSION`).

    `since` and `until` are times in ISO 8601, or times ago (`90m`, `24h`, `7d`); `until` is now by
    default. `trajectories`: the size of the sample; None takes all.
    """

    text: str | None = None
    where: str = "policy"
    draft: str | None = None
    tenants: Sequence[str] = ()
    sources: Sequence[str] = ("raw",)
    kinds: Sequence[str] = ()
    since: str = "24h"
    until: str | None = None
    trajectories: int | None = 200
    seed: int = 0
    raw: bool = False

    @classmethod
    def of_argument(cls, argument: str, **settings: Any) -> Self:
        """Return the question about a file, or about a version where no file has this name.

        Raises:
            WrongPreviewQuestion: it is neither, or the file cannot be read.
        """
        path = Path(argument)
        if not path.exists() and _VERSION.fullmatch(argument):
            return cls(draft=argument, **settings)
        try:
            return cls(text=path.read_text(encoding="utf-8"), where=argument, **settings)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise WrongPreviewQuestion(
                f"cannot read {argument}: {why}; name a policy file or a version (ID@VERSION)"
            ) from error

    def answer(
        self,
        home: "Home",
        caller: "Principal",
        *,
        now: datetime,
        progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> "PreviewReport":
        """Run the preview on the stack of a home.

        Raises:
            WrongPreviewQuestion: the question cannot be understood.
            GovernanceError, PlatformError: see `preview_policy`.
        """
        from atdp.access import open_authorizer
        from atdp.governance import (
            DecidedPolicies,
            PreviewPlace,
            PreviewRequest,
            StageSettings,
            preview_policy,
        )
        from atdp.runtime import KafkaSettings, load_output_secret, open_register
        from atdp.stack.previews.lake_events import LakeEvents

        with closing(open_register(home)) as register:
            decided = DecidedPolicies.read(register)
            request = PreviewRequest(
                caller=caller,
                draft=self._document(decided, caller),
                window=self._window(now),
                sources=self._sources(),
                tenants=tuple(self.tenants),
                show_raw=self.raw,
            )
            place = PreviewPlace(
                home=home,
                settings=StageSettings(
                    kafka=KafkaSettings.from_env(home), output_secret=load_output_secret(home)
                ),
                register=register,
                decided=decided,
                lake=LakeEvents(home, request.checked_tenants()),
                authorizer=open_authorizer(home),
            )
            return preview_policy(request, place, now=now, progress=progress)

    def _document(self, decided: "DecidedPolicies", caller: "Principal") -> "PolicyDocument":
        from atdp.governance import ContentChoice, preview_document

        if self.text is not None:
            return preview_document(self.text, where=self.where)
        match = _VERSION.fullmatch(self.draft or "")
        if match is None:
            raise WrongPreviewQuestion(
                "name a policy by its text or as a version that was drafted (ID@VERSION)"
            )
        choice = ContentChoice(id=match[1], version=int(match[2]), hash=match[3] or "")
        return decided.drafted(caller, choice)

    def _window(self, now: datetime) -> "SampleWindow":
        from atdp.governance import SampleWindow
        from atdp.schemas import KIND_OF_BODY

        known = sorted(KIND_OF_BODY.values())
        if unknown := sorted(set(self.kinds) - set(known)):
            raise WrongPreviewQuestion(
                f"no event has the kind {', '.join(unknown)}; known: {', '.join(known)}"
            )
        since = moment(self.since, now)
        until = now if self.until is None else moment(self.until, now)
        if since >= until:
            raise WrongPreviewQuestion(
                f"the window ends ({until.isoformat()}) before it begins ({since.isoformat()})"
            )
        return SampleWindow(
            since=since,
            until=until,
            trajectories=self.trajectories,
            seed=self.seed,
            kinds=frozenset(self.kinds) or None,
        )

    def _sources(self) -> "Sequence[SampleSource]":
        from atdp.governance import SAMPLE_SOURCES

        chosen = [source for source in SAMPLE_SOURCES if source in self.sources]
        if len(chosen) != len(set(self.sources)) or not chosen:
            raise WrongPreviewQuestion(
                f"samples come from {', '.join(SAMPLE_SOURCES)}, not from "
                f"{', '.join(self.sources) or 'nowhere'}"
            )
        return chosen


def moment(text: str, now: datetime) -> datetime:
    """Return the time that a text names: in ISO 8601 with a zone, or some time ago.

    Raises:
        WrongPreviewQuestion: it names none.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise WrongPreviewQuestion(
            f"{text!r} is no time: write 90m, 24h, 7d or 2026-11-21T08:00:00Z"
        ) from error
    if at.tzinfo is None:
        raise WrongPreviewQuestion(f"the time {text!r} has no zone: add Z for UTC")
    return at
