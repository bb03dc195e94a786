"""Request parameters that change the sampling of tokens, but not the logged log-probabilities.

An engine logs the log-softmax over its full vocabulary. A penalty, a bias, a grammar or a forced
tool call changes the sampling after that. The logged number is then not the probability with which
the token was sampled, and importance weights that are computed from it are wrong. Truncation
(top-p, top-k, min-p) has the same effect, but has columns of its own. Penalties are fields of an
event's sampling; every other parameter that a client sent is in the event's `ext_json`.

The parameters are listed by name, since callers may put anything into `ext_json`. The names are
those of SGLang and vLLM, and OpenAI's `response_format` and `tool_choice`, which both engines carry
out with a grammar.
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
"""Parameter → the values, besides null, with which it changes nothing."""


def sampling_altered_by(sampling: Mapping[str, Any], ext_json: str | None) -> tuple[str, ...]:
    """Return the sorted names of the parameters that changed the sampling.

    An `ext_json` that is not a JSON object may hold any parameter, so it is named itself.
    """
    try:
        further = json.loads(ext_json) if ext_json else {}
    except ValueError:
        further = None
    if not isinstance(further, Mapping):
        return ("ext_json",)
    recorded = {name: value for name, value in sampling.items() if value is not None}
    parameters = {**further, **recorded}
    return tuple(
        sorted(
            name
            for name, harmless in _NO_EFFECT.items()
            if parameters.get(name) is not None and parameters[name] not in harmless
        )
    )
