"""Request parameters that change which tokens are drawn without showing in the logged log-probabilities.

An engine logs the log-softmax over its full vocabulary. A penalty, a bias, a grammar or a forced
tool call changes the draw after that, so the logged number is not the probability of the draw, and
nothing weighted by it is right. Truncation (top-p, top-k, min-p) does the same but has columns of
its own. Penalties are fields of an event's sampling; everything else that a client sent is its
`ext_json`.

Listed by name, since callers may put anything into `ext_json`: what SGLang and vLLM call them, and
OpenAI's `response_format` and `tool_choice`, which both engines carry out with a grammar.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_NO_EFFECT: Mapping[str, Sequence[Any]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_tokens": (0,),
    "min_new_tokens": (0,),
    "typical_p": (1,),
    "logit_bias": ({},),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "custom_logit_processor": (),
    "logits_processors": ([],),
    "use_beam_search": (False,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto", "none"),
    "regex": (),
    "ebnf": (),
    "json_schema": (),
    "structural_tag": (),
    "structured_outputs": (),
    "grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
}
"""Parameter → the values besides null at which it changes nothing."""


def altered_by(sampling: Mapping[str, Any], ext_json: str | None) -> tuple[str, ...]:
    """Names of the parameters that changed the draw, sorted; `ext_json` itself where it cannot be read."""
    try:
        further = json.loads(ext_json) if ext_json else {}
    except ValueError:
        further = None
    if not isinstance(further, Mapping):
        return ("ext_json",)
    found = {**further, **{name: value for name, value in sampling.items() if value is not None}}
    return tuple(
        sorted(
            name
            for name, harmless in _NO_EFFECT.items()
            if found.get(name) is not None and found[name] not in harmless
        )
    )
