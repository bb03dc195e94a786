"""Errors as HTTP answers in SGLang's two shapes: nested for its own routes, flat under `/v1`."""

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from atdp.inference.errors import NotReadyError, RequestError


def add_error_answers(app: FastAPI) -> None:
    """Answer the errors of the worker in the shape that SGLang gives them."""

    @app.exception_handler(RequestError)
    async def bad_request(request: Request, error: RequestError) -> Response:
        return error_answer(request.url.path, 400, str(error), "BadRequestError")

    @app.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> Response:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()
        )
        message = problems or "The body does not have the fields that this route takes."
        return error_answer(request.url.path, 400, message, "BadRequestError")

    @app.exception_handler(NotReadyError)
    async def not_ready(request: Request, error: NotReadyError) -> Response:
        return error_answer(request.url.path, 503, str(error), "ServiceUnavailable")

    @app.exception_handler(404)
    async def unknown(request: Request, _: Exception) -> Response:
        return PlainTextResponse(f"no route {request.url.path} in this worker\n", 404)


def error_answer(path: str, status: int, message: str, kind: str) -> JSONResponse:
    """Return the answer to a failed request for `path`; `kind` is OpenAI's type of error."""
    if not path.startswith("/v1/"):
        return JSONResponse({"error": {"message": message}}, status)
    body: dict[str, Any] = {
        "object": "error",
        "message": message,
        "type": kind,
        "param": None,
        "code": status,
    }
    return JSONResponse(body, status)
