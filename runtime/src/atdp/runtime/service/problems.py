"""Answers that are errors: one form for all routes, the one that OpenAI clients already read."""

from fastapi import Request
from fastapi.responses import JSONResponse

from atdp.runtime.errors import PlatformError


class Problem(PlatformError):
    """An HTTP error answer.

    The message says what happened and what to do next, and quotes no event data.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, object]:
        """`{"error": {"message", "type", "code"}}`."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "code": self.code}}


def problem_response(_request: Request, problem: Exception) -> JSONResponse:
    """Exception handler for `Problem`."""
    assert isinstance(problem, Problem)
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    return JSONResponse(problem.body(), problem.status, headers)


def unavailable(detail: str) -> Problem:
    """The event log did not acknowledge: nothing is promised, the caller should retry."""
    return Problem(
        503,
        "event_log_unavailable",
        f"{detail}. Retry with the header X-ATDP-Redelivery: 1",
        retry_after_s=1,
    )
