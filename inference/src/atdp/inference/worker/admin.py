"""Routes around generation: models, health, weight swaps, pause and abort, tokenising, metrics."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pydantic import BaseModel, ConfigDict

from atdp.inference.errors import ModelError, RequestError
from atdp.inference.worker.engine import Engine
from atdp.inference.worker.sampling import Sampling
from atdp.inference.worker.sequence import Job
from atdp.inference.worker.worker_state import WorkerState


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class UpdateFromDisk(_Body):
    """POST /update_weights_from_disk."""

    model_path: str
    weight_version: str | None = None
    flush_cache: bool = True
    abort_all_requests: bool = False


class UpdateVersion(_Body):
    """POST /update_weight_version."""

    new_version: str
    abort_all_requests: bool = True


class Pause(_Body):
    """POST /pause_generation."""

    mode: Literal["abort", "retract", "in_place"] = "abort"


class Abort(_Body):
    """POST /abort_request."""

    rid: str = ""
    abort_all: bool = False


class Tokenize(_Body):
    """POST /tokenize."""

    prompt: str


class Detokenize(_Body):
    """POST /detokenize."""

    tokens: list[int]
    skip_special_tokens: bool = True


def add_admin_routes(app: FastAPI, state: WorkerState) -> None:
    """All routes of this module."""
    _add_information(app, state)
    _add_weights(app, state)
    _add_flow(app, state.engine)


def _add_information(app: FastAPI, state: WorkerState) -> None:
    engine = state.engine
    started = int(time.time())

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        if not engine.loaded:
            return {"object": "list", "data": []}
        model = engine.model
        entry = {
            "id": model.name,
            "object": "model",
            "created": started,
            "owned_by": "sglang",
            "root": model.name,
        }
        return {
            "object": "list",
            "data": [entry | {"parent": None, "max_model_len": model.decoder.context}],
        }

    @app.get("/model_info")
    @app.get("/get_model_info")
    async def model_info() -> dict[str, Any]:
        model = engine.model
        return {
            "model_path": str(model.path),
            "served_model_name": model.name,
            "tokenizer_path": str(model.path),
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": model.version,
            "load_format": "auto",
            "reasoning_parser": None,
            "tool_call_parser": "hermes",
            "disaggregation_mode": "null",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": model.model_type,
            "architectures": list(model.architectures),
            "tokenizer_hash": model.tokenizer_hash,
            "template_hash": model.template_hash,
        }

    @app.get("/server_info")
    @app.get("/get_server_info")
    async def server_info() -> dict[str, Any]:
        model = engine.model
        return {
            "model_path": str(model.path),
            "tokenizer_path": str(model.path),
            "context_length": model.decoder.context,
            "device": state.device,
            "dtype": "float32",
            "max_running_requests": engine.max_rows,
            "decoder": type(model.decoder).__name__,
            "engine": "atdp",
        }

    @app.get("/health")
    @app.get("/ready")
    async def health() -> Response:
        return Response(status_code=200 if engine.loaded else 503)

    @app.get("/health_generate")
    async def health_generate() -> Response:
        model = engine.model
        token = min(model.eos_ids, default=0)
        job = Job(
            rid="health", prompt=(token,), sampling=Sampling(max_new_tokens=1, temperature=0.0)
        )
        await asyncio.wait_for(asyncio.wrap_future(engine.submit(job)), timeout=20)
        return Response(status_code=200)

    @app.post("/tokenize")
    async def tokenize(body: Tokenize) -> dict[str, Any]:
        model = engine.model
        tokens = model.ids(body.prompt)
        return {
            "tokens": list(tokens),
            "count": len(tokens),
            "max_model_len": model.decoder.context,
        }

    @app.post("/detokenize")
    async def detokenize(body: Detokenize) -> dict[str, Any]:
        model = engine.model
        if body.tokens and not 0 <= min(body.tokens) <= max(body.tokens) < model.decoder.vocab_size:
            raise RequestError(
                f"tokens must lie in [0, {model.decoder.vocab_size}) for this model."
            )
        return {
            "text": model.text(tuple(body.tokens), skip_special_tokens=body.skip_special_tokens)
        }


def _add_weights(app: FastAPI, state: WorkerState) -> None:
    engine = state.engine
    one_at_a_time = asyncio.Lock()

    @app.post("/update_weights_from_disk")
    async def update_weights(body: UpdateFromDisk) -> Response:
        version = body.weight_version or (engine.model.version if engine.loaded else None)
        async with one_at_a_time:
            try:
                model = await asyncio.to_thread(state.open, Path(body.model_path), version)
            except ModelError as error:
                return JSONResponse(
                    {"success": False, "message": str(error), "num_paused_requests": 0}, 400
                )
            if body.abort_all_requests:
                await asyncio.wrap_future(engine.abort(None))
            await asyncio.wrap_future(engine.swap(model))
            await asyncio.to_thread(state.keep)
        message = "Succeeded to update model weights."
        if body.weight_version:
            message += f" Weight version updated to {body.weight_version}."
        return JSONResponse({"success": True, "message": message, "num_paused_requests": 0})

    @app.post("/update_weight_version")
    async def update_version(body: UpdateVersion) -> dict[str, Any]:
        await asyncio.wrap_future(
            engine.rename(body.new_version, abort_all=body.abort_all_requests)
        )
        await asyncio.to_thread(state.keep)
        message = f"Weight version updated to {body.new_version}"
        return {"success": True, "message": message, "new_version": body.new_version}


def _add_flow(app: FastAPI, engine: Engine) -> None:
    @app.post("/pause_generation")
    async def pause(body: Pause) -> dict[str, str]:
        await asyncio.wrap_future(engine.pause(body.mode))
        return {"message": "Generation paused successfully.", "status": "ok"}

    @app.post("/continue_generation")
    async def resume() -> dict[str, str]:
        await asyncio.wrap_future(engine.resume())
        return {"message": "Generation continued successfully.", "status": "ok"}

    @app.post("/abort_request")
    async def abort(body: Abort) -> Response:
        await asyncio.wrap_future(engine.abort(None if body.abort_all else body.rid))
        return Response(status_code=200)

    @app.api_route("/flush_cache", methods=["GET", "POST"])
    async def flush_cache() -> Response:
        flushed = await asyncio.wrap_future(engine.flush())
        note = "(When there are running or waiting requests, the operation will not be performed.)"
        return PlainTextResponse(f"Cache flushed.\n{note}\n", 200 if flushed else 400)


class EngineMetrics:
    """Prometheus collector over the engine's counters."""

    def __init__(self, engine: Engine) -> None:
        """Read `engine` at every scrape."""
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """The catalogue of this worker's metrics."""
        counters = self._engine.counters
        for name, text, value in (
            ("requests", "Sequences asked for", counters.requests),
            (
                "prompt_tokens",
                "Prompt tokens admitted, cached ones included",
                counters.prompt_tokens,
            ),
            ("cached_tokens", "Prompt tokens taken from the prefix cache", counters.cached_tokens),
            ("output_tokens", "Tokens generated", counters.output_tokens),
            ("decode_steps", "Steps of the whole batch", counters.steps),
            ("weight_swaps", "Weight versions loaded", counters.swaps),
            ("aborted", "Sequences aborted", counters.aborted),
            ("failed", "Sequences failed by an error in the engine", counters.failed),
        ):
            yield CounterMetricFamily(f"atdp_inference_{name}", text, value=value)
        yield GaugeMetricFamily(
            "atdp_inference_running", "Sequences in the batch", value=counters.running
        )
        yield GaugeMetricFamily(
            "atdp_inference_waiting", "Sequences not yet admitted", value=counters.waiting
        )
        version = GaugeMetricFamily(
            "atdp_inference_weights", "1 for the weight version that serves", labels=["version"]
        )
        if self._engine.loaded:
            version.add_metric([self._engine.model.version], 1)
        yield version
