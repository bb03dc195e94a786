"""Notices about the runs of schedules, to webhooks and commands.

A webhook is signed as the Standard Webhooks specification says (symmetric signatures, `v1`;
github.com/standard-webhooks), so that receivers check it with a library that exists. Every URL has
a key of its own, which is derived from a secret of the home: the receiver of one schedule cannot
forge the notices of another.

A notice is delivered at least once. Its id is the same at every attempt, and by it a receiver drops
repeats. One call is one attempt; the step of the run that calls repeats it.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import httpx

from atdp.runtime import Home, load_secret_key
from atdp.stack.errors import StackError

_WEBHOOK_TIMEOUT_S: Final = 10.0
_COMMAND_TIMEOUT_S: Final = 60.0
_SUCCESSES: Final = range(HTTPStatus.OK, HTTPStatus.MULTIPLE_CHOICES)


class NoticeNotDelivered(StackError):
    """A webhook or command did not take a notice; the next attempt may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """The notice that a webhook or command gets about a run. It holds no value of an event."""

    run_id: str
    schedule: str
    logical_time: str
    """ISO 8601, UTC."""
    state: str
    """State of the run, such as `completed`."""
    verdict: str | None
    """PASS, FAIL, INCONCLUSIVE or ERROR; None for a run without an evaluation."""
    reasons: tuple[str, ...] = ()
    """Codes of the verdict's reasons."""
    model: str | None = None
    candidate: str | None = None
    baseline: str | None = None
    evaluation: str | None = None
    """Id of the evaluation in the table `evaluations`."""
    error: str | None = None

    def body(self) -> bytes:
        """Return the notice as JSON with sorted keys: the same bytes at every attempt."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False).encode()


def webhook_key(home: Home, url: str) -> bytes:
    """Return the key that signs the webhooks to `url`.

    Raises:
        SecretKeyError: the secret of the home cannot be used.
    """
    secret = load_secret_key(
        home.webhook_secret_file, if_lost="every receiver of webhooks needs its new secret"
    )
    return hmac.digest(secret, url.encode(), hashlib.sha256)


def webhook_secret(home: Home, url: str) -> str:
    """Return the key of `url` as receivers configure it: `whsec_` and base64.

    Raises:
        SecretKeyError: see `webhook_key`.
    """
    return "whsec_" + base64.b64encode(webhook_key(home, url)).decode()


def signed_headers(key: bytes, notice_id: str, sent_at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a signed webhook."""
    seconds = str(int(sent_at.timestamp()))
    signed = b".".join((notice_id.encode(), seconds.encode(), body))
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {
        "content-type": "application/json",
        "webhook-id": notice_id,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{signature}",
    }


def send_webhook(home: Home, url: str, notice: RunNotice, now: datetime) -> None:
    """Send a notice to a URL; redirects are not followed.

    Raises:
        NoticeNotDelivered: the receiver is not reached, or does not answer with a success.
        SecretKeyError: see `webhook_key`.
    """
    host = _host(url)
    body = notice.body()
    headers = signed_headers(webhook_key(home, url), notice.run_id, now, body)
    try:
        status = asyncio.run(asyncio.wait_for(_post(url, body, headers), _WEBHOOK_TIMEOUT_S))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        raise NoticeNotDelivered(
            f"the webhook at {host} is not reached ({type(error).__name__})"
        ) from None
    if status not in _SUCCESSES:
        raise NoticeNotDelivered(f"the webhook at {host} answered {status}")


async def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Return the status of the answer, without its content, which may be endless.

    The timeout of httpx is one for each read, which an answer that drips never reaches; the caller
    has one for all of it.
    """
    async with (
        httpx.AsyncClient(timeout=_WEBHOOK_TIMEOUT_S) as client,
        client.stream("POST", url, content=body, headers=headers) as answer,
    ):
        return answer.status_code


def _host(url: str) -> str:
    """Return the host of a URL for messages: another part of it may be a secret (Slack's is)."""
    try:
        return urlsplit(url).hostname or "a URL without host"
    except ValueError:
        return "a URL that is not valid"


def run_notice_command(command: Sequence[str], notice: RunNotice) -> None:
    """Run a command, without a shell, with the notice as JSON on its standard input.

    `ATDP_SCHEDULE`, `ATDP_RUN` and `ATDP_VERDICT` are in its environment. What it prints is
    dropped.

    Raises:
        NoticeNotDelivered: it cannot be run, ends with another code than 0, or takes over a minute.
    """
    named = {
        "ATDP_SCHEDULE": notice.schedule,
        "ATDP_RUN": notice.run_id,
        "ATDP_VERDICT": notice.verdict or "",
    }
    try:
        process = subprocess.Popen(
            list(command),
            env={**os.environ, **named},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with process:
            try:
                process.communicate(notice.body(), timeout=_COMMAND_TIMEOUT_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # also what it has started
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoticeNotDelivered(
            f"the command {command[0]} did not run to its end ({type(error).__name__})"
        ) from error
    if process.returncode:
        raise NoticeNotDelivered(f"the command {command[0]} ended with {process.returncode}")
