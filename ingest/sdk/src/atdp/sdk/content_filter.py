"""The content of one event as the rules of its recorder permit it.

The filter works on the body that a host's call made, before it is folded into the context held and
before it is encoded. So the context that later observations refer to, its hashes and the spool hold
what is sent, and nothing else.

A text that is withheld is null (empty where the contract demands a text), and the event says so:
`atdp_withheld` in its metadata lists the kinds. Where models read or wrote such a text, the event
permits neither training nor replay, since readers would take the rest for all of it. Token ids are
the same text in another coding and cannot be changed here, so they are withheld wherever texts may
be.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, Final, TypeVar, cast

from atdp.schemas import (
    KIND_OF_BODY,
    Action,
    Body,
    Event,
    Generation,
    Governance,
    Message,
    Observation,
    Part,
    hash_of_tools,
)
from atdp.sdk.content_fields import RECORDS, TEXTS, kind_of, kind_of_text
from atdp.sdk.content_kinds import MODEL_KINDS, ContentKind
from atdp.sdk.content_rules import ContentRules
from atdp.sdk.content_texts import ChangedTexts
from atdp.sdk.envelope import Extras
from atdp.sdk.errors import RedactionFailed
from atdp.sdk.json_text import json_text

WITHHELD: Final = "atdp_withheld"
"""Key of an event's metadata: the kinds of content that were withheld from it."""
_WITHOUT_TOKENS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("prompt_token_ids", "prompt_prefix_event_id", "prompt_prefix_tokens")),
    **dict.fromkeys(("output_token_ids", "output_logprobs", "loss_mask", "routed_experts")),
    "token_splices": (),
}
_KNOWN: Final = TEXTS.keys() | RECORDS.keys() | KIND_OF_BODY.keys()
"""The records whose content is known. A subclass is another record."""
_NO_PURPOSE: Final = "none"
"""A word for no purpose; an empty list of purposes would set no limit."""

R = TypeVar("R")


class ContentFilter:
    """The filter of one event; `withheld` has the kinds that were withheld so far."""

    def __init__(self, rules: ContentRules) -> None:
        """Withhold nothing yet."""
        self.withheld: set[str] = set()
        self._rules = rules
        self._texts = ChangedTexts(rules.redact, self.withheld.add)

    def body(self, body: Body) -> Body:
        """Return a body with the content that may be written.

        Raises:
            RedactionFailed: a function failed; nothing of the event may be written.
        """
        return self._record(body, "messages")

    def message(self, message: Message) -> Message:
        """Return a message of the context; see `body`."""
        return self._record(message, "messages")

    def json_value(self, value: Any, kind: ContentKind) -> Any:
        """Return a value that is written as JSON; None: it is withheld."""
        text = self._text(json_text(value), kind, is_json=True)
        # Not `value` again, which may be written otherwise the next time.
        return None if text is None else json.loads(text)

    def extras(self, extras: Extras, inherited: Governance | None) -> None:
        """Change fields of the envelope in place, and note there what was withheld.

        `inherited` is the stamp of an event that has none of its own.
        """
        for name in ("metadata", "ext"):
            if extras.get(name) is not None:
                extras[name] = self.json_value(extras[name], "metadata")
        if extras.get("links"):
            extras["links"] = tuple(self._record(link, "metadata") for link in extras["links"])
        if self.withheld:
            extras["metadata"] = {**(extras.get("metadata") or {}), WITHHELD: sorted(self.withheld)}
        if self.withheld & MODEL_KINDS:
            stamp = extras.get("governance", inherited)
            extras["governance"] = _for_analytics(stamp)

    def event(self, event: Event) -> Event:
        """Return a whole event with the content that may be written; see `body`."""
        changed = replace(
            event,
            body=self.body(event.body),
            links=tuple(self._record(link, "metadata") for link in event.links),
            metadata_json=self._json_object(event.metadata_json),
            ext_json=self._json_object(event.ext_json),
        )
        if self.withheld:
            metadata = json.loads(changed.metadata_json or "{}")
            noted = json_text({**metadata, WITHHELD: sorted(self.withheld)})
            changed = replace(changed, metadata_json=noted)
        if self.withheld & MODEL_KINDS:
            changed = replace(changed, governance=_for_analytics(event.governance))
        return changed

    def _json_object(self, text: str | None) -> str | None:
        return None if text is None else self._text(text, "metadata", is_json=True)

    def _record(self, record: R, outer: ContentKind) -> R:
        """Return a record that stands in one of the kind `outer`; itself where nothing changes.

        Raises:
            RedactionFailed: it is no record of the contract, so its content is not known.
        """
        if type(record) not in _KNOWN:
            raise RedactionFailed(
                f"{type(record).__name__} is no record of the contract, whose content is known; "
                "use the classes of atdp.schemas themselves"
            )
        own = kind_of(record, outer)
        changed: dict[str, Any] = {}
        for name in TEXTS.get(type(record), ()):
            text, kind = getattr(record, name), kind_of_text(record, name, own)
            if text is None or kind is None:
                continue
            if isinstance(record, Message | Part) and name == "ext_json":
                kind = self._kind_of_unknown_keys(kind)
            new = self._text(text, kind, is_json=name.endswith("_json"))
            if new is None and name in _required_fields(cast("Hashable", type(record))):
                new = ""
            if new != text:
                changed[name] = new
        for name in RECORDS.get(type(record), ()):
            inner = getattr(record, name)
            kept = (
                self._all(inner, own) if isinstance(inner, tuple | list) else self._one(inner, own)
            )
            if kept is not inner:
                changed[name] = kept
        changed |= self._consequences(record, changed)
        return replace(record, **changed) if changed else record  # type: ignore[type-var]

    def _one(self, record: R | None, outer: ContentKind) -> R | None:
        return None if record is None else self._record(record, outer)

    def _all(self, records: tuple[R, ...] | list[R], outer: ContentKind) -> tuple[R, ...]:
        given = tuple(records)  # itself where it is a tuple
        new = tuple(self._record(each, outer) for each in given)
        is_same = all(after is before for after, before in zip(new, given, strict=True))
        return given if is_same else new

    def _text(self, text: str, kind: ContentKind, *, is_json: bool) -> str | None:
        if kind in self._rules.withheld:
            self.withheld.add(kind)
            return None
        return self._texts.text(text, kind, is_json=is_json) if text else text

    def _kind_of_unknown_keys(self, kind: ContentKind) -> ContentKind:
        """Return a withheld kind for keys that the contract does not know, if there is one.

        Providers put reasoning and calls into such keys of a message.
        """
        return min(self._rules.withheld & MODEL_KINDS, default=kind)

    def _consequences(self, record: object, changed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields that do not hold any more once other fields were changed."""
        match record:
            case Observation(tools_hash=str()) if "tool_definitions" in self._rules.withheld:
                self.withheld.add("tool_definitions")
                return {"tools_hash": None}
            case Observation() if changed.get("tools_json") is not None:
                return {"tools_hash": hash_of_tools(json.loads(changed["tools_json"]))}
            case Part() if changed.keys() & {"text", "uri"}:
                # A digest tells whoever guesses the content that the guess is right.
                return {"signature": None, "sha256": None, "size_bytes": None}
            case Action(generation=Generation() as generation):
                return self._without_tokens(generation)
            case _:
                return {}

    def _without_tokens(self, generation: Generation) -> Mapping[str, Any]:
        ids = (generation.prompt_token_ids, generation.output_token_ids)
        if not self._rules.withholds_tokens or ids == (None, None):
            return {}
        self.withheld.add("tokens")
        return {"generation": replace(generation, **_WITHOUT_TOKENS)}


@cache
def _required_fields(record: Hashable) -> frozenset[str]:
    """Return the fields that cannot be null."""
    return frozenset(each.name for each in fields(cast("Any", record)) if each.default is MISSING)


def _for_analytics(stamp: Governance | None) -> Governance:
    stamp = stamp or Governance()
    permits = not stamp.purposes or "analytics" in stamp.purposes
    return replace(stamp, purposes=("analytics",) if permits else (_NO_PURPOSE,))
