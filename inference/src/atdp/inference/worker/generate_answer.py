"""The answers of SGLang's `/generate`, and the `meta_info` that chat answers carry too.

Shapes follow recorded answers of SGLang 0.5.23; the contract suite compares them key by key.
"""

import time
from collections.abc import Sequence
from typing import Any

from atdp.inference.worker.request_bodies import GenerateBody
from atdp.inference.worker.sequence import Finish, Progress, TopLogprobs, WeightSpan
from atdp.inference.worker.served_model import ServedModel


def generate_answer(progress: Progress, model: ServedModel, body: GenerateBody) -> dict[str, Any]:
    """Return the answer of /generate for one sequence (or one streamed state of it)."""
    meta = meta_info(
        progress, model if body.return_text_in_logprobs else None, logprobs=body.return_logprob
    )
    if body.return_logprob and body.top_logprobs_num == 0:
        del meta["input_top_logprobs"], meta["output_top_logprobs"]
    return {
        "text": output_text(progress, model),
        "output_ids": list(progress.output),
        "meta_info": meta,
    }


def output_text(progress: Progress, model: ServedModel) -> str:
    """Return the output as text without control tokens, cut before a matched stop string."""
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
    """Return SGLang's `meta_info`.

    With `texts` the log-probability entries carry the text of their token, else null.
    """
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
            [value, token, _token_text(texts, token)]
            for value, token in zip(progress.input_logprobs, inputs, strict=False)
        ]
        meta["output_token_logprobs"] = [
            [value, token, _token_text(texts, token)]
            for value, token in zip(progress.logprobs, progress.output, strict=True)
        ]
        meta["output_token_logprobs_length"] = produced
        meta["input_top_logprobs"] = [
            top and _top_entries(texts, top) for top in progress.input_top
        ]
        meta["output_top_logprobs"] = [_top_entries(texts, top) for top in progress.top]
    meta |= {"reasoning_tokens": 0, "completion_tokens": produced, "cached_tokens": progress.cached}
    if progress.finish is not None:
        meta["weight_versions"] = span_objects(progress.spans)
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
    """Return SGLang's structured finish reason."""
    if finish is None:
        return None
    if finish.kind == "stop":
        return {"type": "stop", "matched": finish.matched}
    if finish.kind == "length":
        return {"type": "length", "length": produced}
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


def _top_entries(texts: ServedModel | None, top: TopLogprobs) -> list[list[Any]]:
    return [[value, token, _token_text(texts, token)] for value, token in top]


def _token_text(texts: ServedModel | None, token: int) -> str | None:
    return None if texts is None else texts.text((token,), skip_special_tokens=False)


def span_objects(spans: Sequence[WeightSpan]) -> list[dict[str, Any]]:
    """Return spans of weight versions as JSON objects."""
    return [{"version": span.version, "start": span.start, "end": span.end} for span in spans]
