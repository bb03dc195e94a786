"""Routes around generation: models, health, tokenising, weight swaps, pause and abort."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from atdp.inference.errors import ModelError, RequestError, WeightsRefused
from atdp.inference.worker.engine import DecodingEngine
from atdp.inference.worker.request_bodies import RequestBody
from atdp.inference.worker.sampling import SamplingParameters
from atdp.inference.worker.sequence import Job
from atdp.inference.worker.served_model import ServedModel
from atdp.inference.worker.worker_state import WorkerState

_log = logging.getLogger("atdp.inference")

_HEALTH_TIMEOUT_S = 20
"""A generation of one token takes milliseconds; it may wait for a batch of long prompts."""


class UpdateFromDisk(RequestBody):
    """POST /update_weights_from_disk."""

    model_path: str
    weight_version: str | None = None
    """Version that the manifest must name; None: whichever it names."""
    weights_sha256: str | None = None
    """Digest that the weights must have. SGLang does not know this field."""
    flush_cache: bool = True
    abort_all_requests: bool = False


class Pause(RequestBody):
    """POST /pause_generation."""

    mode: Literal["abort", "retract", "in_place"] = "abort"


class Abort(RequestBody):
    """POST /abort_request."""

    rid: str = ""
    abort_all: bool = False


class Tokenize(RequestBody):
    """POST /tokenize."""

    prompt: str


class Detokenize(RequestBody):
    """POST /detokenize."""

    tokens: list[int]
    skip_special_tokens: bool = True


def add_admin_routes(app: FastAPI, state: WorkerState) -> None:
    """Add all routes of this module."""
    _add_information(app, state)
    _add_health(app, state.engine)
    _add_tokenizer(app, state.engine)
    _add_weights(app, state)
    _add_flow(app, state.engine)


def _add_information(app: FastAPI, state: WorkerState) -> None:
    engine = state.engine
    started = int(time.time())

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        data = [_model_entry(engine.model, started)] if engine.loaded else []
        return {"object": "list", "data": data}

    @app.get("/model_info")
    @app.get("/get_model_info")
    async def model_info() -> dict[str, Any]:
        return _model_info(engine.model)

    @app.get("/server_info")
    @app.get("/get_server_info")
    async def server_info() -> dict[str, Any]:
        model = engine.model
        return {
            "model_path": str(model.path),
            "tokenizer_path": str(model.path),
            "context_length": model.decoder.context,
            "device": state.options.device,
            "dtype": "float32",
            "max_running_requests": engine.max_rows,
            "decoder": type(model.decoder).__name__,
            "engine": "atdp",
        }


def _model_entry(model: ServedModel, created: int) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "sglang",
        "root": model.name,
        "parent": None,
        "max_model_len": model.decoder.context,
    }


def _model_info(model: ServedModel) -> dict[str, Any]:
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
        "weights_sha256": model.weights_sha256,
    }


def _add_health(app: FastAPI, engine: DecodingEngine) -> None:
    @app.get("/health")
    @app.get("/ready")
    async def health() -> Response:
        return Response(status_code=200 if engine.loaded else 503)

    @app.get("/health_generate")
    async def health_generate() -> Response:
        job = Job(
            rid="health",
            prompt=(min(engine.model.eos_ids, default=0),),
            sampling=SamplingParameters(max_new_tokens=1, temperature=0.0),
        )
        await asyncio.wait_for(asyncio.wrap_future(engine.submit(job)), timeout=_HEALTH_TIMEOUT_S)
        return Response(status_code=200)


def _add_tokenizer(app: FastAPI, engine: DecodingEngine) -> None:
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
        async with one_at_a_time:
            try:
                model = await asyncio.to_thread(
                    state.open,
                    Path(body.model_path),
                    version=body.weight_version,
                    weights_sha256=body.weights_sha256,
                )
            except WeightsRefused as error:
                return _not_updated(str(error))
            except ModelError as error:
                _log.warning("weights cannot be served: %s", error)
                return _not_updated("The model cannot be served; the worker's log has the reason.")
            if body.abort_all_requests:
                await asyncio.wrap_future(engine.abort(None))
            await asyncio.wrap_future(engine.swap(model))
            await asyncio.to_thread(state.save)
        message = "Succeeded to update model weights."
        if body.weight_version:
            message += f" Weight version updated to {body.weight_version}."
        return JSONResponse({"success": True, "message": message, "num_paused_requests": 0})


def _not_updated(message: str) -> Response:
    return JSONResponse({"success": False, "message": message, "num_paused_requests": 0}, 400)


def _add_flow(app: FastAPI, engine: DecodingEngine) -> None:
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
