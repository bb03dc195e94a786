"""HTTP error answers: one form for all routes, which OpenAI clients already read."""

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from atdp.runtime.errors import PlatformError


class HttpProblem(PlatformError):
    """An HTTP error answer.

    The message says what happened and what to do next, and quotes no event data. `code` names the
    cause for programs. `retry_after_s` becomes the header `Retry-After`.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, object]:
        """Return the JSON body: `{"error": {"message", "type", "code"}}`."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "code": self.code}}


def http_problem_response(_request: Request, problem: Exception) -> JSONResponse:
    """Return the answer for an `HttpProblem`; register it as an exception handler."""
    assert isinstance(problem, HttpProblem)
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    return JSONResponse(problem.body(), problem.status, headers)


def invalid_request_response(_request: Request, error: Exception) -> JSONResponse:
    """Return the answer for a request whose fields are wrong; register it as an exception handler.

    It names the fields and their rules and quotes no value.
    """
    assert isinstance(error, RequestValidationError)
    places = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
    message = "; ".join(f"{place}: {rule}" for place, rule in places)
    if isinstance(error.body, str | bytes):
        message = "the body was not read as JSON; send it with `Content-Type: application/json`"
    return http_problem_response(_request, HttpProblem(422, "invalid_request", message))
