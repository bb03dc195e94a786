"""The kinds of content that a recorder writes or withholds.

Every kind is written unless something turns it off: the `capture` option, the variable
`ATDP_CAPTURE`, or the variable with which hosts tell all OpenTelemetry instrumentations to record
no content. What one of them turns off stays off, whatever the others say.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast, get_args

from atdp.sdk.errors import ConfigurationError

ContentKind: TypeAlias = Literal[
    "messages",
    "reasoning",
    "tool_arguments",
    "tool_results",
    "tool_definitions",
    "judgements",
    "metadata",
    "tokens",
]
"""A kind of content:

- `messages`: the text of messages (of every role but `tool`), tasks, hand-overs and approvals
- `reasoning`: the reasoning in messages, plans, internal states
- `tool_arguments`: arguments of tool calls, in actions and in messages; queries, memory, diffs
- `tool_results`: outcomes with their errors, messages of the role `tool`, retrieved documents
- `tool_definitions`: the definitions of tools, with their hash
- `judgements`: critiques, the text and the person of feedback, the values of annotations
- `metadata`: the fields `metadata` and `ext` of events
- `tokens`: token ids with their log-probabilities
"""

CONTENT_KINDS: Final = cast("tuple[ContentKind, ...]", get_args(ContentKind))
MODEL_KINDS: Final[frozenset[ContentKind]] = frozenset(
    ("messages", "reasoning", "tool_arguments", "tool_results", "tool_definitions")
)
"""Content that models read and write, which is what token ids spell."""

CAPTURE_VARIABLE: Final = "ATDP_CAPTURE"
OTEL_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OTEL_ON: Final = frozenset(("", "true", "span_only", "event_only", "span_and_event"))
"""Values of the variable that permit content. OpenTelemetry takes every other one for a no."""
_SWITCH: Final = {"true": True, "false": False}


def withheld_by(capture: Mapping[ContentKind, bool]) -> frozenset[ContentKind]:
    """Return the kinds that the option `capture` turns off.

    Raises:
        ConfigurationError: it is no mapping from kinds to True or False.
    """
    if not isinstance(capture, Mapping):
        raise ConfigurationError(
            'capture must be a dict such as {"tool_arguments": False}; '
            f"its keys are {', '.join(CONTENT_KINDS)}"
        )
    for kind, is_captured in capture.items():
        _refuse_unknown("capture", kind)
        if not isinstance(is_captured, bool):
            raise ConfigurationError(f"capture[{kind!r}] must be True or False")
    return frozenset(kind for kind, is_captured in capture.items() if not is_captured)


def withheld_by_environment(environ: Mapping[str, str]) -> frozenset[ContentKind]:
    """Return the kinds that the environment turns off.

    Raises:
        ConfigurationError: `ATDP_CAPTURE` has another form than `false` or `kind=false,…`.
    """
    if environ.get(OTEL_VARIABLE, "").strip().lower() not in _OTEL_ON:
        return frozenset(CONTENT_KINDS)
    text = environ.get(CAPTURE_VARIABLE, "").strip()
    if (all_kinds := _SWITCH.get(text.lower() or "true")) is not None:
        return frozenset(() if all_kinds else CONTENT_KINDS)
    capture: dict[ContentKind, bool] = {}
    for entry in text.split(","):
        kind, _, word = (part.strip() for part in entry.partition("="))
        _refuse_unknown(CAPTURE_VARIABLE, kind)
        if word.lower() not in _SWITCH:
            raise ConfigurationError(f"{CAPTURE_VARIABLE}: set {kind} to true or false")
        capture[cast("ContentKind", kind)] = _SWITCH[word.lower()]
    return withheld_by(capture)


def _refuse_unknown(where: str, kind: str) -> None:
    if kind not in CONTENT_KINDS:
        raise ConfigurationError(
            f"{where}: {kind!r} is no kind of content; the kinds are {', '.join(CONTENT_KINDS)}"
        )
