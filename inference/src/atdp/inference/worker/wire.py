"""SGLang's HTTP bodies: requests in, answers out.

Shapes follow recorded answers of SGLang 0.5.23; the contract suite compares key by key. Unknown
request fields are ignored, as SGLang ignores those that its build does not use.
"""

import time
import uuid
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from atdp.inference.errors import RequestError
from atdp.inference.worker.sampling import Sampling
from atdp.inference.worker.sequence import Finish, Job, Progress, TopLogprobs
from atdp.inference.worker.served_model import ServedModel


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class SamplingBody(_Body):
    """`sampling_params` of /generate."""

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    n: int = Field(default=1, ge=1, le=256)
    sampling_seed: int | None = None

    def sampling(self) -> Sampling:
        """As a checked value."""
        return Sampling(
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            stop=_stops(self.stop),
            stop_token_ids=frozenset(self.stop_token_ids or ()),
            ignore_eos=self.ignore_eos,
            skip_special_tokens=self.skip_special_tokens,
            no_stop_trim=self.no_stop_trim,
            seed=self.sampling_seed,
        )


class GenerateBody(_Body):
    """POST /generate."""

    text: str | list[str] | None = None
    input_ids: list[int] | list[list[int]] | None = None
    sampling_params: SamplingBody | list[SamplingBody] = Field(default_factory=SamplingBody)
    return_logprob: bool = False
    logprob_start_len: int = -1
    top_logprobs_num: int = Field(default=0, ge=0, le=100)
    return_text_in_logprobs: bool = False
    stream: bool = False
    rid: str | list[str] | None = None

    @property
    def batched(self) -> bool:
        """The answer is a list."""
        many = isinstance(self.text, list) or bool(
            self.input_ids and isinstance(self.input_ids[0], list)
        )
        return many or any(params.n > 1 for params in self._params(1))

    def _params(self, count: int) -> list[SamplingBody]:
        if isinstance(self.sampling_params, SamplingBody):
            return [self.sampling_params] * count
        return self.sampling_params

    def jobs(self, model: ServedModel) -> list[Job]:
        """One job per prompt and sample.

        Raises RequestError when there is no prompt or the counts do not match.
        """
        prompts = self._prompts(model)
        params = self._params(len(prompts))
        if len(params) != len(prompts):
            raise RequestError(
                f"{len(params)} sampling_params for {len(prompts)} prompts; give one or as many."
            )
        rids = self.rid if isinstance(self.rid, list) else [self.rid] * len(prompts)
        if len(rids) != len(prompts):
            raise RequestError(f"{len(rids)} rids for {len(prompts)} prompts; give as many.")
        start = (
            self.logprob_start_len if self.return_logprob and self.logprob_start_len >= 0 else None
        )
        return [
            Job(
                rid=rid if rid and setting.n == 1 else uuid.uuid4().hex,
                prompt=prompt,
                sampling=setting.sampling(),
                input_logprobs_from=start,
                top_logprobs=self.top_logprobs_num if self.return_logprob else 0,
            )
            for prompt, setting, rid in zip(prompts, params, rids, strict=True)
            for _ in range(setting.n)
        ]

    def _prompts(self, model: ServedModel) -> list[tuple[int, ...]]:
        if self.input_ids:
            if isinstance(self.input_ids[0], list):
                return [tuple(ids) for ids in self.input_ids if isinstance(ids, list)]
            return [tuple(token for token in self.input_ids if isinstance(token, int))]
        if self.text is None:
            raise RequestError("Either text, input_ids or input_embeds should be provided.")
        texts = self.text if isinstance(self.text, list) else [self.text]
        return [model.ids(text) for text in texts]


def generation(progress: Progress, model: ServedModel, body: GenerateBody) -> dict[str, Any]:
    """The answer of /generate for one sequence (or one streamed state of it)."""
    meta = meta_info(
        progress, model if body.return_text_in_logprobs else None, logprobs=body.return_logprob
    )
    if body.return_logprob and body.top_logprobs_num == 0:
        meta.pop("input_top_logprobs"), meta.pop("output_top_logprobs")
    return {
        "text": output_text(progress, model),
        "output_ids": list(progress.output),
        "meta_info": meta,
    }


def output_text(progress: Progress, model: ServedModel) -> str:
    """Decoded output without control tokens, cut before a matched stop string."""
    sampling, finish = progress.job.sampling, progress.finish
    ids = progress.output
    if (
        finish
        and finish.kind == "stop"
        and isinstance(finish.matched, int)
        and not sampling.no_stop_trim
    ):
        ids = ids[:-1]
    text = model.text(ids, skip_special_tokens=sampling.skip_special_tokens)
    if finish and isinstance(finish.matched, str) and not sampling.no_stop_trim:
        text = text[: text.index(finish.matched)]
    return text


def meta_info(progress: Progress, texts: ServedModel | None, *, logprobs: bool) -> dict[str, Any]:
    """SGLang's `meta_info`. With `texts` the log-prob entries carry the token's text, else null."""
    job, produced = progress.job, len(progress.output)
    meta: dict[str, Any] = {
        "id": job.rid,
        "finish_reason": finish_reason(progress.finish, produced),
        "prompt_tokens": len(job.prompt),
        "weight_version": progress.weight_version,
        "num_retractions": progress.retractions,
        "storage_prefetch_wait": 0.0,
        "storage_staging_wait": 0.0,
        "forward_entry_time": progress.admitted_at,
        "prefill_finished_time": progress.first_token_at,
        "queue_time": max(0.0, progress.admitted_at - job.received_at),
    }
    if logprobs:
        start = job.input_logprobs_from or 0
        inputs = job.prompt[start:]
        meta["input_token_logprobs"] = [
            [value, token, _text(texts, token)]
            for value, token in zip(progress.input_logprobs, inputs, strict=False)
        ]
        meta["output_token_logprobs"] = [
            [value, token, _text(texts, token)]
            for value, token in zip(progress.logprobs, progress.output, strict=True)
        ]
        meta["output_token_logprobs_length"] = produced
        meta["input_top_logprobs"] = [top and _top(texts, top) for top in progress.input_top]
        meta["output_top_logprobs"] = [_top(texts, top) for top in progress.top]
    meta |= {"reasoning_tokens": 0, "completion_tokens": produced, "cached_tokens": progress.cached}
    if progress.finish is not None:
        meta["weight_versions"] = [vars(span) for span in progress.spans]
    meta["cached_tokens_details"] = (
        {"device": progress.cached, "host": 0} if progress.cached else None
    )
    meta["dp_rank"] = None
    if progress.finish is not None:
        meta |= _timings(progress)
    return meta


def _timings(progress: Progress) -> dict[str, Any]:
    received, finished = progress.job.received_at, progress.finished_at
    timings: dict[str, Any] = {
        "e2e_latency": finished - received,
        "request_received_ts": received,
        "first_token_latency": progress.first_token_at - received,
        "api_server_dispatch_finish_ts": received,
        "request_finished_ts": finished,
    }
    if len(progress.output) > 1:
        seconds = max(finished - progress.first_token_at, 1e-9)
        timings["decode_throughput"] = (len(progress.output) - 1) / seconds
    timings["response_sent_to_client_ts"] = time.time()
    return timings


def finish_reason(finish: Finish | None, produced: int) -> dict[str, Any] | None:
    """SGLang's structured reason."""
    if finish is None:
        return None
    if finish.kind == "stop":
        return {"type": "stop", "matched": finish.matched}
    if finish.kind == "length":
        return {"type": "length", "length": produced}
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


def _top(texts: ServedModel | None, top: TopLogprobs) -> list[list[Any]]:
    return [[value, token, _text(texts, token)] for value, token in top]


def _text(texts: ServedModel | None, token: int) -> str | None:
    return None if texts is None else texts.text((token,), skip_special_tokens=False)


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


class ChatBody(_Body):
    """POST /v1/chat/completions: OpenAI's fields and SGLang's additions."""

    model: str = "default"
    messages: list[dict[str, Any]] = Field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] = "auto"
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    seed: int | None = None
    n: int = Field(default=1, ge=1, le=256)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    rid: str | None = None
    input_ids: list[int] | None = None
    return_token_ids: bool = False
    return_prompt_token_ids: bool = False
    return_meta_info: bool = False

    @property
    def offered_tools(self) -> list[dict[str, Any]]:
        """Tools the reply may call."""
        return [] if self.tool_choice == "none" else list(self.tools or ())

    def prompt(self, model: ServedModel) -> tuple[int, ...]:
        """The rendered conversation as token ids."""
        if self.input_ids:
            return tuple(self.input_ids)
        if not self.messages:
            raise RequestError("Messages cannot be empty.")
        return model.ids(
            model.template.render(self.messages, self.offered_tools, add_generation_prompt=True)
        )

    def jobs(self, model: ServedModel) -> list[Job]:
        """One job per choice."""
        prompt = self.prompt(model)
        limit = (
            self.max_completion_tokens
            if self.max_completion_tokens is not None
            else self.max_tokens
        )
        if limit is None:
            limit = max(model.decoder.context - len(prompt), 1)
        sampling = Sampling(
            max_new_tokens=limit,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=-1 if self.top_k is None else self.top_k,
            min_p=self.min_p or 0.0,
            stop=_stops(self.stop),
            stop_token_ids=frozenset(self.stop_token_ids or ()),
            ignore_eos=self.ignore_eos,
            seed=self.seed,
        )
        top = (self.top_logprobs or 0) if self.logprobs else 0
        first = self.rid or uuid.uuid4().hex
        return [
            Job(
                rid=first if number == 0 else f"{first}_{number}",
                prompt=prompt,
                sampling=sampling,
                top_logprobs=top,
            )
            for number in range(self.n)
        ]
