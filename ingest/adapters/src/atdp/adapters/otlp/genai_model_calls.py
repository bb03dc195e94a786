"""Request and response attributes of a model call."""

from collections.abc import Mapping
from typing import Any

from atdp.adapters.documents.typed import as_count, as_number, as_text
from atdp.schemas import Generation, Sampling

_MICROS = 1_000_000


def read_generation(attributes: Mapping[str, Any], index: int, count: int) -> Generation:
    """Return the generation of the answer `index` of `count` answers of a call."""
    provider = attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))
    reasons = attributes.get("gen_ai.response.finish_reasons")
    reasons = reasons if isinstance(reasons, list) else []
    first_chunk = as_number(attributes.get("gen_ai.response.time_to_first_chunk"))
    return Generation(
        model=as_text(attributes.get("gen_ai.request.model")),
        served_model=as_text(attributes.get("gen_ai.response.model")),
        provider=as_text(provider),
        response_id=as_text(attributes.get("gen_ai.response.id")),
        choice_index=index if count > 1 else None,
        finish_reason=as_text(reasons[index]) if index < len(reasons) else None,
        sampling=_read_sampling(attributes),
        time_to_first_token_us=_micros(first_chunk),
    )


def write_generation(generation: Generation) -> dict[str, Any]:
    """Return the attributes that a generation's fields say, without its answer."""
    first_token = generation.time_to_first_token_us
    written = {
        "gen_ai.request.model": generation.model,
        "gen_ai.response.model": generation.served_model,
        "gen_ai.provider.name": generation.provider,
        "gen_ai.response.id": generation.response_id,
        "gen_ai.response.time_to_first_chunk": (
            None if first_token is None else first_token / _MICROS
        ),
        **_write_sampling(generation.sampling),
    }
    return {key: value for key, value in written.items() if value is not None}


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else as_count(round(seconds * _MICROS))


def _read_sampling(attributes: Mapping[str, Any]) -> Sampling | None:
    def request(name: str) -> Any:
        return attributes.get(f"gen_ai.request.{name}")

    stop = request("stop_sequences")
    top_k = as_number(request("top_k"))
    texts = isinstance(stop, list) and all(isinstance(each, str) for each in stop)
    seed = request("seed")
    sampling = Sampling(
        temperature=as_number(request("temperature")),
        top_p=as_number(request("top_p")),
        top_k=None if top_k is None else as_count(int(top_k), bits=32),
        max_tokens=as_count(request("max_tokens")),
        seed=as_count(seed),
        frequency_penalty=as_number(request("frequency_penalty")),
        presence_penalty=as_number(request("presence_penalty")),
        stop=tuple(stop) if texts else (),
        choices=as_count(request("choice.count"), bits=32),
    )
    return None if sampling == Sampling() else sampling


def _write_sampling(sampling: Sampling | None) -> dict[str, Any]:
    if sampling is None:
        return {}
    return {
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": None if sampling.top_k is None else float(sampling.top_k),
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
        "gen_ai.request.presence_penalty": sampling.presence_penalty,
        "gen_ai.request.stop_sequences": list(sampling.stop) or None,
        "gen_ai.request.choice.count": sampling.choices,
    }
