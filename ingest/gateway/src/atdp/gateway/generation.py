"""Reading an SGLang chat answer: the tokens, log-probabilities and weight versions that the agent never asks for.

The engine is asked for more than the client asked for (`WANTED`), and the client gets back what it
asked for (`strip`). What the client left open about the draw is stated (`EXPLICIT`), so that what
is recorded is what was used. Behaviour log-probabilities come from
`meta_info.output_token_logprobs` (log-probability and token id side by side, so they cannot drift
apart), else from `logprobs.content`. Where lengths disagree nothing is kept: a wrong
log-probability is worse than none.
"""

from collections.abc import Mapping
from typing import Any

from atdp.schemas import Generation, Sampling, Usage, VersionSpan, extra_json

WANTED: Mapping[str, Any] = {
    "logprobs": True,
    "return_token_ids": True,
    "return_prompt_token_ids": True,
    "return_meta_info": True,
    "stream": False,
}
"""Added to every request to the engine (SGLang 0.5.23, `/v1/chat/completions`)."""

EXPLICIT: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""Sent where the client sent none: a plain draw. Otherwise SGLang takes them from the model's
`generation_config.json` (`--sampling-defaults model`), which no answer tells."""

_ALREADY_RECORDED = frozenset(
    {
        *WANTED,
        *("model", "messages", "tools", "stream_options", "top_logprobs", "n"),
        *(
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "max_tokens",
            "max_completion_tokens",
            "seed",
            "stop",
        ),
        *("frequency_penalty", "presence_penalty"),
    }
)


def engine_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request to the engine for a client's request."""
    return {
        **{key: value for key, value in _stated(request).items() if key != "stream_options"},
        **WANTED,
    }


def strip(request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as the client would have got it without the proxy."""
    hidden = {
        name
        for flag, name in (
            ("return_token_ids", "response_token_ids"),
            ("return_prompt_token_ids", "prompt_token_ids"),
            ("return_meta_info", "meta_info"),
        )
        if not request.get(flag)
    }
    choices = []
    for choice in answer.get("choices") or []:
        kept = {key: value for key, value in choice.items() if key not in hidden}
        if not request.get("logprobs") and "logprobs" in kept:
            kept["logprobs"] = None
        choices.append(kept)
    return {**answer, "choices": choices}


def sampling(request: Mapping[str, Any]) -> Sampling:
    """The sampling parameters that the engine was sent."""
    request = _stated(request)
    stop = request.get("stop") or ()
    return Sampling(
        temperature=_real(request.get("temperature")),
        top_p=_real(request.get("top_p")),
        top_k=_whole(request.get("top_k")),
        min_p=_real(request.get("min_p")),
        max_tokens=_whole(request.get("max_completion_tokens", request.get("max_tokens"))),
        seed=_whole(request.get("seed")),
        frequency_penalty=_real(request.get("frequency_penalty")),
        presence_penalty=_real(request.get("presence_penalty")),
        stop=(stop,) if isinstance(stop, str) else tuple(str(each) for each in stop),
    )


def further_parameters(request: Mapping[str, Any]) -> str | None:
    """Request parameters that no field of an event holds (`tool_choice`, `response_format`, …), as JSON."""
    return extra_json(request, _ALREADY_RECORDED)


def generation(
    request: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    tokenizer_hash: str | None,
    template_hash: str | None,
) -> Generation:
    """The generation in an engine's answer (its first choice)."""
    choice = answer["choices"][0]
    meta = choice.get("meta_info") or {}
    output = _ids(choice.get("response_token_ids"))
    logprobs = _logprobs(choice, meta)
    if output is None or logprobs is None or len(output) != len(logprobs):
        logprobs = None
    return Generation(
        model=_word(request.get("model")),
        served_model=_word(answer.get("model")),
        provider="sglang",
        request_id=_word(answer.get("id")),
        prompt_token_ids=_ids(choice.get("prompt_token_ids")),
        output_token_ids=output,
        output_logprobs=logprobs,
        policy_versions=_spans(answer, meta, len(output or ())),
        sampling=sampling(request),
        tokenizer_hash=tokenizer_hash,
        template_hash=template_hash,
        finish_reason=_word(choice.get("finish_reason")),
    )


def weight_version(answer: Mapping[str, Any]) -> str | None:
    """The weights that an answer says it came from (the last ones, where they changed on the way)."""
    choices = answer.get("choices") or [{}]
    meta = choices[0].get("meta_info") or {}
    return _word(meta.get("weight_version") or (answer.get("metadata") or {}).get("weight_version"))


def usage(answer: Mapping[str, Any]) -> Usage | None:
    """Token counts as the engine reports them."""
    found = answer.get("usage")
    if not isinstance(found, Mapping):
        return None
    details = found.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=_whole(found.get("prompt_tokens")),
        output_tokens=_whole(found.get("completion_tokens")),
        cached_input_tokens=_whole(details.get("cached_tokens")),
        reasoning_tokens=_whole(found.get("reasoning_tokens")),
    )


def _stated(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with everything said about the draw; null says nothing."""
    return {
        **request,
        **{key: value for key, value in EXPLICIT.items() if request.get(key) is None},
    }


def _logprobs(choice: Mapping[str, Any], meta: Mapping[str, Any]) -> tuple[float, ...] | None:
    triples = meta.get("output_token_logprobs")
    if triples:
        return tuple(float(triple[0]) for triple in triples)
    content = (choice.get("logprobs") or {}).get("content")
    return tuple(float(each["logprob"]) for each in content) if content else None


def _spans(
    answer: Mapping[str, Any], meta: Mapping[str, Any], tokens: int
) -> tuple[VersionSpan, ...]:
    found = meta.get("weight_versions") or (answer.get("metadata") or {}).get("weight_versions")
    if found:
        return tuple(
            VersionSpan(
                version=str(span["version"]), start=int(span["start"]), end=int(span["end"])
            )
            for span in found
        )
    version = weight_version(answer)
    return (VersionSpan(version=version, start=0, end=tokens),) if version and tokens else ()


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(int(each) for each in value) if isinstance(value, list) else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None
