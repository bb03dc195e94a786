"""A stand-in for a judge's endpoint: OpenAI's chat completions over HTTP, good, bad and ugly."""

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NONSENSE = [
    "very nice",
    '{"score": 7, "reason": "x"}',
    '{"score": true, "reason": "x"}',
    '{"score": "0.5", "reason": "x"}',
    '{"score": 0.5}',
    '{"score": 0.5, "reason": "x", "also": 1}',
    '[{"score": 0.5, "reason": "x"}]',
    '{"score": NaN, "reason": "x"}',
    "[" * 100_000,
    '```json\n{"score": 0.5, "reason": "x"}\n```',
]


class FakeJudge:
    """Its answers count up, so that a second answer to one question differs from the first."""

    def __init__(self) -> None:
        self.mode = "good"
        """good, slow, 429, 500, 401, nonsense, empty, or the text of the answer."""
        self.slow_s = 5.0
        self.go = threading.Event()
        """A slow judge answers when this is set."""
        self.retry_after: str | None = None
        self.model: str | None = None
        """The model that the answers name; None: the one that was asked for."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.url = ""

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return len(self.requests)

    @contextmanager
    def serving(self, port: int = 0) -> Iterator["FakeJudge"]:
        """Serve for the duration of the block; at other times the judge is down."""
        judge = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                judge.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one call in the present mode."""
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self._lock:
            self.requests.append(body)
            self.headers.append(dict(request.headers))
            number = len(self.requests)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if self.mode == "slow":
            self.go.wait(self.slow_s)
        with self._lock:
            self._at_once -= 1
        with contextlib.suppress(OSError):  # the caller has given up
            self._write(request, body, number)

    def _write(self, request: BaseHTTPRequestHandler, body: dict[str, Any], number: int) -> None:
        status = int(self.mode) if self.mode.isdigit() else 200
        text = json.dumps({"score": number / 1000, "reason": f"answer {number}"})
        if self.mode == "nonsense":
            text = NONSENSE[number % len(NONSENSE)]
        elif self.mode not in ("good", "slow") and status == 200:
            text = self.mode
        completion = {
            "id": f"answer-{number}",
            "object": "chat.completion",
            "model": self.model or f"{body['model']}-0613",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
        }
        data = b"{}" if status != 200 else json.dumps(completion).encode()
        if self.mode == "empty":
            data = b""
        request.send_response(status)
        if self.retry_after is not None:
            request.send_header("Retry-After", self.retry_after)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
