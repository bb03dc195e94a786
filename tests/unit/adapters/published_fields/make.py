# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = [
#     "a2a-sdk==1.3.0",
#     "anthropic==2.12.0",
#     "mcp==2.3.0",
#     "nvidia-nat-atif==1.9.0",
#     "openai==3.54.0",
#     "openinference-semantic-conventions==0.1.42",
#     "opentelemetry-semantic-conventions==0.66b2",
#     "opentelemetry-util-genai==1.3b0",
# ]
# ///
# mypy: ignore-errors
"""Writes the fields that each format's own package publishes, one file per mapping page.

`uv run --no-project --script make.py` writes the files beside itself. A line is an attribute, or a
field with the types inside it: `Type.field: Inner, Other`. A type that a `type` key tells apart has
the word of that key as its name. The files for formats without a package in the registry are
written by hand; their first line names the source.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pydantic
import typing_extensions

HERE = Path(__file__).parent


def write(page: str, packages: str, lines: list[str]) -> None:
    """Write the file of a page."""
    names = ", ".join(f"{package} {version(package)}" for package in packages.split())
    text = "\n".join([f"# {names}", *lines])
    (HERE / f"{page}.txt").write_text(text + "\n", "utf-8")
    print(page, len(lines))


def constants(*owners: object) -> list[str]:
    """Return the attribute names that modules or classes hold as constants."""
    return sorted(
        {
            value
            for owner in owners
            for name, value in vars(owner).items()
            if name.isupper() and isinstance(value, str)
        }
    )


def structure(*roots: type) -> list[str]:
    """Return the fields of types, and of all types inside them, breadth first from the roots."""
    fields: dict[str, dict[str, set[str]]] = {}
    queue, seen = list(roots), set()
    while queue:
        kind = queue.pop(0)
        if kind in seen:
            continue
        seen.add(kind)
        own = fields.setdefault(name_of(kind), {})
        for field, annotation in hints(kind).items():
            inner = list(classes(annotation))
            own.setdefault(field, set()).update(map(name_of, inner))
            queue.extend(inner)
    return [
        f"{kind}.{field}" + (f": {', '.join(sorted(inner))}" if inner else "")
        for kind, own in fields.items()
        for field, inner in own.items()
    ]


def hints(kind: type) -> dict[str, object]:
    """Return the annotations of a model's fields by the names that they have on the wire."""
    if inspect.isclass(kind) and issubclass(kind, pydantic.BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return {
        name: hint
        for name, hint in typing_extensions.get_type_hints(kind).items()
        if name[0] != "_"
    }


def name_of(kind: type) -> str:
    """Return the word that tells a type apart in documents, or else the name of its class."""
    own = hints(kind)
    words = typing.get_args(own.get("type")) if "type" in own else ()
    if len(words) == 1 and isinstance(words[0], str):
        return words[0]
    return kind.__name__.removesuffix("Param").removesuffix("Base")


def classes(annotation: object) -> Iterator[type]:
    """Yield the models inside an annotation."""
    if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
        if (
            issubclass(annotation, pydantic.BaseModel)
            or typing_extensions.is_typeddict(annotation)
            or dataclasses.is_dataclass(annotation)
        ):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from classes(inner)


def otel() -> None:
    import opentelemetry.semconv._incubating.attributes.gen_ai_attributes as gen_ai
    import opentelemetry.semconv._incubating.attributes.openai_attributes as openai
    import opentelemetry.util.genai.types as messages

    parts = [
        *(messages.InputMessage, messages.OutputMessage),
        *(kind for kind in vars(messages).values() if dataclasses.is_dataclass(kind)),
    ]
    inside = [kind for kind in parts if "type" in hints(kind) or kind in parts[:2]]
    lines = [*constants(gen_ai, openai), *structure(*inside)]
    write("otel_genai", "opentelemetry-semantic-conventions opentelemetry-util-genai", lines)


def openinference() -> None:
    import openinference.semconv.trace as trace

    owners = [each for name, each in vars(trace).items() if name.endswith("Attributes")]
    write("openinference", "openinference-semantic-conventions", constants(*owners))


def openai() -> None:
    from openai.types import chat, responses
    from openai.types.chat.completion_create_params import CompletionCreateParamsBase
    from openai.types.responses.response_create_params import ResponseCreateParamsBase

    called = structure(CompletionCreateParamsBase, chat.ChatCompletion, chat.ChatCompletionChunk)
    write("openai_chat", "openai", called)
    write("openai_responses", "openai", structure(ResponseCreateParamsBase, responses.Response))


def anthropic() -> None:
    from anthropic import types as anthropic_types
    from anthropic.types.message_create_params import MessageCreateParamsBase

    write(
        "anthropic_messages",
        "anthropic",
        structure(MessageCreateParamsBase, anthropic_types.Message),
    )


def mcp() -> None:
    import mcp_types

    models = [
        each
        for each in vars(mcp_types).values()
        if inspect.isclass(each) and issubclass(each, pydantic.BaseModel)
    ]
    write("mcp", "mcp", structure(*models))


def a2a() -> None:
    from a2a.types import a2a_pb2

    lines = []
    for name, message in a2a_pb2.DESCRIPTOR.message_types_by_name.items():
        for field in message.fields:
            kind = field.message_type
            if kind and kind.GetOptions().map_entry:
                kind = kind.fields_by_name["value"].message_type
            inner = kind and kind.file is a2a_pb2.DESCRIPTOR and kind.containing_type is None
            lines.append(f"{name}.{field.name}" + (f": {kind.name}" if inner else ""))
    write("a2a", "a2a-sdk", lines)


def atif() -> None:
    from nat.atif import Trajectory

    write("atif", "nvidia-nat-atif", structure(Trajectory))


def main() -> None:
    for make in (otel, openinference, openai, anthropic, mcp, a2a, atif):
        make()


if __name__ == "__main__":
    main()
