"""The HTTP application: SGLang's routes over the engine, and the health routes of our own services."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from atdp.inference.errors import ModelError, NotReadyError, RequestError
from atdp.inference.worker.admin import add_admin_routes
from atdp.inference.worker.chat_answer import ChatChunks, completion
from atdp.inference.worker.decoder_choice import DecoderKind
from atdp.inference.worker.engine import Engine
from atdp.inference.worker.sequence import Job, Progress
from atdp.inference.worker.wire import ChatBody, GenerateBody, generation
from atdp.inference.worker.worker_state import WorkerState


def create_app(
    model_dir: Path | None = None,
    weight_version: str | None = None,
    *,
    decoder: DecoderKind = "auto",
    device: str = "cpu",
    max_rows: int = 64,
    seed: int | None = None,
    remember: Path | None = None,
) -> FastAPI:
    """The worker's application.

    Without `model_dir` it starts empty and takes its first weights by `/update_weights_from_disk`.
    `remember` is a file in which it keeps what it serves, so that a restarted process serves the
    same. Raises ModelError when `model_dir` cannot be served.
    """
    state = WorkerState(
        engine=Engine(max_rows=max_rows, seed=seed),
        kind=decoder,
        device=device,
        max_rows=max_rows,
        remember=remember,
    )
    first = (model_dir, weight_version) if model_dir is not None else state.remembered()
    if first is not None:
        state.load_first(*first)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(state.engine.close)

    app = FastAPI(title="atdp inference worker", lifespan=lifespan)
    app.state.worker = state
    _add_error_shapes(app)
    _add_generation_routes(app, state.engine)
    add_admin_routes(app, state)
    return app


def _add_generation_routes(app: FastAPI, engine: Engine) -> None:
    @app.post("/generate")
    async def generate(body: GenerateBody) -> Response:
        model = engine.model
        jobs = body.jobs(model)
        if body.stream:
            if len(jobs) > 1:
                raise RequestError("A stream carries one sequence; send one prompt with n=1.")
            return _stream(engine, jobs[0], lambda progress: [generation(progress, model, body)])
        results = await _run(engine, jobs)
        answers = [generation(result, model, body) for result in results]
        return JSONResponse(answers if body.batched else answers[0])

    @app.post("/v1/chat/completions")
    async def chat(body: ChatBody) -> Response:
        model = engine.model
        jobs = body.jobs(model)
        if body.stream:
            if len(jobs) > 1:
                raise RequestError("A stream carries one choice; ask with n=1.")
            return _stream(engine, jobs[0], ChatChunks(body, model))
        return JSONResponse(completion(body, model, await _run(engine, jobs)))


async def _run(engine: Engine, jobs: list[Job]) -> list[Progress]:
    return list(await asyncio.gather(*(asyncio.wrap_future(engine.submit(job)) for job in jobs)))


def _stream(
    engine: Engine, job: Job, chunks: Callable[[Progress], list[dict[str, Any]]]
) -> StreamingResponse:
    """Server-sent events, ended by `[DONE]`; a client that goes away aborts its job."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Progress] = asyncio.Queue()
    streamed = Job(
        **{**vars(job), "on_token": lambda p: loop.call_soon_threadsafe(queue.put_nowait, p)}
    )
    result = asyncio.wrap_future(engine.submit(streamed))

    def last(done: asyncio.Future[Progress]) -> None:
        if not done.cancelled() and done.exception() is None:
            queue.put_nowait(done.result())

    result.add_done_callback(last)

    async def events() -> AsyncIterator[str]:
        ended = False
        try:
            while not ended:
                waiting = asyncio.ensure_future(queue.get())
                await asyncio.wait({waiting, result}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done() and queue.empty():
                    waiting.cancel()
                    result.result()  # failed before anything more was said: raise that
                progress = await waiting
                ended = progress.finish is not None
                for chunk in chunks(progress):
                    yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
            yield "data: [DONE]\n\n"
        finally:
            if not ended:
                engine.abort(job.rid)

    return StreamingResponse(events(), media_type="text/event-stream")


def _add_error_shapes(app: FastAPI) -> None:
    """Errors in SGLang's two shapes: nested for its own routes, OpenAI-like under /v1."""

    def answer(request: Request, status: int, message: str, kind: str) -> JSONResponse:
        if request.url.path.startswith("/v1/"):
            body: dict[str, Any] = {
                "object": "error",
                "message": message,
                "type": kind,
                "param": None,
                "code": status,
            }
        else:
            body = {"error": {"message": message}}
        return JSONResponse(body, status)

    @app.exception_handler(RequestError)
    async def bad_request(request: Request, error: RequestError) -> Response:
        return answer(request, 400, str(error), "BadRequestError")

    @app.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> Response:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()
        )
        return answer(
            request, 400, problems or "the body is not what this route takes", "BadRequestError"
        )

    @app.exception_handler(NotReadyError)
    async def not_ready(request: Request, error: NotReadyError) -> Response:
        return answer(request, 503, str(error), "ServiceUnavailable")

    @app.exception_handler(ModelError)
    async def bad_model(_: Request, error: ModelError) -> Response:
        return JSONResponse(
            {"success": False, "message": str(error), "num_paused_requests": 0}, 400
        )

    @app.exception_handler(404)
    async def unknown(request: Request, _: Exception) -> Response:
        return PlainTextResponse(f"no route {request.url.path} in this worker\n", 404)
