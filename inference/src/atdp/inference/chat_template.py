"""Messages to text and back: the chat template and Hermes tool calls.

Rendering follows the conventions of Hugging Face chat templates (Jinja in a sandbox, `messages`,
`tools`, `add_generation_prompt`), so the same template file gives the same text in transformers and
in SGLang. It is implemented here a second time because importing transformers for it costs 230 MB
of memory and several seconds; a test compares the two.

The project's own template (`chat_template.jinja`) is Qwen-like but short: tools are listed by name
and parameters only, a turn ends with `<|im_end|>` and nothing after it. It is *prefix-stable*: the
text of n messages plus the generation prompt is a prefix of the text of n + 1 messages.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from atdp.inference.errors import RequestError
from atdp.inference.tokenizer import TOOL_CALL_END, TOOL_CALL_START

Message = Mapping[str, Any]
"""One chat message in OpenAI's shape. It comes from outside and goes into a template, so its
content is not typed."""

Tool = Mapping[str, Any]
"""One tool definition in OpenAI's shape."""

_EXTENSIONS: tuple[type[Extension], ...] = (loopcontrols,)
_CALL = re.compile(re.escape(TOOL_CALL_START) + r"(.*?)" + re.escape(TOOL_CALL_END), re.DOTALL)


def default_template() -> str:
    """Return the template that small models of this project are trained with."""
    return (
        resources.files("atdp.inference")
        .joinpath("chat_template.jinja")
        .read_text(encoding="utf-8")
    )


class ChatTemplate:
    """A compiled template; rendering has no effects."""

    def __init__(
        self, source: str, *, eos_token: str = "", bos_token: str = "", pad_token: str = ""
    ) -> None:
        """Compile `source`, which may use the special tokens under their usual names."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=_EXTENSIONS
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        self.source = source
        self._tokens = {"eos_token": eos_token, "bos_token": bos_token, "pad_token": pad_token}
        self._template = environment.from_string(source)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        """Return the text of a conversation.

        Raises:
            RequestError: the template refuses the messages.
        """
        plain = [plain_message(message) for message in messages]
        try:
            return self._template.render(
                messages=plain,
                tools=tools or None,
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
            )
        except (jinja2.TemplateError, TypeError, AttributeError) as error:
            raise RequestError(
                f"The chat template cannot render these messages: {error}"
            ) from error


def plain_message(message: Message) -> dict[str, Any]:
    """Return the message with a content that is one string.

    OpenAI's list of text parts is joined.

    Raises:
        RequestError: a part is not text.
    """
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        texts = []
        for part in content:
            if not isinstance(part, Mapping) or part.get("type") != "text":
                raise RequestError("Only text parts are supported in message content.")
            texts.append(str(part.get("text", "")))
        content = "".join(texts)
    if not isinstance(message.get("role"), str):
        raise RequestError("Every message needs a role.")
    return {**message, "content": content}


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedReply:
    """An assistant's reply: its text, and the tool calls in OpenAI's shape."""

    content: str | None
    tool_calls: tuple[dict[str, Any], ...]


def parse_tool_calls(text: str, tools: Sequence[Tool]) -> ParsedReply:
    """Parse the Hermes tool calls of a reply.

    When a call is not valid JSON, or names a tool that was not offered, the whole reply is text, so
    that no output of the model is lost.
    """
    offered = {str((tool.get("function") or tool).get("name")) for tool in tools}
    calls: list[dict[str, Any]] = []
    for match in _CALL.finditer(text):
        try:
            call = json.loads(match.group(1))
            name, arguments = call["name"], call.get("arguments", {})
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
            return ParsedReply(content=text, tool_calls=())
        if name not in offered:
            return ParsedReply(content=text, tool_calls=())
        written = (
            arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        )
        calls.append(
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "index": len(calls),
                "type": "function",
                "function": {"name": name, "arguments": written},
            }
        )
    if not calls:
        return ParsedReply(content=text, tool_calls=())
    before = text[: text.index(TOOL_CALL_START)].strip()
    return ParsedReply(content=before or None, tool_calls=tuple(calls))
