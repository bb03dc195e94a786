"""Attacks with copied, expired and misused keys."""

import base64
import sqlite3

from atdp.runtime.keys import ApiKey
from atdp.schemas import SigningKey, encode, signed_headers

from .senders import RAW, Sent, event_of, rows_behind, said, send, signed
from .target import Target

NUMBERS = ("+1 212 555 0147", "+1 212 555 0148")


def forge_with_a_copied_store(target: Target) -> str | None:
    """Sign with everything that a copy of the key store holds about a key."""
    forged = []
    for seed in _stored_secrets(target):
        event = event_of(trajectory="of-a-copied-store")
        value = encode(event)
        key = SigningKey(key_id=target.agent.key_id, seed=seed)
        headers = signed_headers(key, RAW, event.key, value)
        forged.append(Sent(key=event.key, value=value, headers=headers, event_id=event.event_id))
    send(target, *forged)
    rows = rows_behind(target, forged, target.agent)
    return f"{rows} rows landed" if rows else None


def log_in_with_a_copied_store(target: Target) -> str | None:
    """Ask the gateway with everything that a copy of the key store holds about a key."""
    for secret in _stored_secrets(target):
        text = base64.urlsafe_b64encode(secret).decode().rstrip("=")
        with target.http("gateway", f"atdp_{target.agent.key_id}_{text}") as gateway:
            answer = gateway.post("/v1/sessions", json={"task_id": "t"})
        if answer.status_code != 401:
            return f"answered {answer.status_code}"
    return None


def emit_as_the_operator(target: Target) -> str | None:
    """Send an event with the operator's key."""
    operator = ApiKey(target.home.operator_key_file.read_text("utf-8").strip())
    record = signed(event_of(trajectory="of-the-operator"), operator)
    send(target, record)
    rows = rows_behind(target, [record], target.agent)
    return f"{rows} rows landed" if rows else None


def query_with_the_key_of_an_agent(target: Target) -> str | None:
    """Read by SQL with a key that sends events."""
    with target.http("gateway", target.agent) as gateway:
        answer = gateway.post("/v1/sql", json={"query": "SELECT count(*) FROM events"})
    return None if answer.status_code == 403 else f"answered {answer.status_code}"


def guess_a_number(target: Target) -> str | None:
    """Send guesses of a telephone number until the pseudonym of somebody else's matches."""
    secret, guess = (
        signed(event_of(trajectory=name, body=said(f"call me at {NUMBERS[0]}")), target.agent)
        for name in ("theirs", "guesses")
    )
    send(target, secret, guess)
    for record in (secret, guess):
        if rows_behind(target, [record], target.agent) != 1:
            return "the records did not land, so nothing was tried"
    texts = target.rows(
        "SELECT DISTINCT to_json(observation) AS text FROM events "
        f"WHERE event_id IN ('{secret.event_id}', '{guess.event_id}')"
    )
    if NUMBERS[0] in str(texts):
        return "the number was not redacted"
    return None if len(texts) == 2 else "equal numbers have equal pseudonyms"


def _stored_secrets(target: Target) -> list[bytes]:
    """Return the values of the store's row of the agent's key that are long enough for a secret."""
    with sqlite3.connect(target.home.keys_db) as store:
        row = store.execute("SELECT * FROM keys WHERE key_id = ?", [target.agent.key_id]).fetchone()
    return [value for value in row if isinstance(value, bytes) and len(value) >= 32]


ATTACKS = (
    forge_with_a_copied_store,
    log_in_with_a_copied_store,
    emit_as_the_operator,
    query_with_the_key_of_an_agent,
    guess_a_number,
)
