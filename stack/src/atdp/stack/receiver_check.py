"""The check of a receiver of events: the vectors of the conformance suite, posted to its HTTP API.

Each vector of a single event that has a JSON form is posted, and the events of the good sequences
in their order. Bad sequences are not posted: a receiver looks at each event alone. Everything is
posted a second time, twice in one request, as clients that retry do; the answers must be the same.

Ids of the vectors never change, so a second run lands nothing new.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from atdp.schemas import REPEAT_RULE, ConformanceReport, event_vectors, sequence_vectors
from atdp.stack.errors import StackError

VECTOR_TENANT = "conformance"
"""Tenant of the vectors; the events that are posted have the tenant of the caller's key."""
_BATCH_EVENTS = 50
_BATCH_BYTES = 60_000
"""Sizes of one request; twice as much is far below the limits of the gateway."""


class ReceiverUnusable(StackError):
    """A receiver did not answer as the HTTP API of events says, so it cannot be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One event to post, with the verdict that the receiver is to give."""

    vector_id: str
    rule: str
    accepted: bool
    document: Mapping[str, Any]


def check_receiver(url: str, api_key: str, tenant: str) -> ConformanceReport:
    """Post the vectors to the receiver at `url`; `tenant` is the tenant of the key.

    Raises:
        ReceiverUnusable: it cannot be reached, or its answers are not those of the API.
    """
    report = ConformanceReport()
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=60
    ) as client:
        for batch in _batches(_items(tenant)):
            documents = [item.document for item in batch]
            rejected = _post(client, documents)
            again = _post(client, [*documents, *documents])
            for index, item in enumerate(batch):
                refused = index in rejected
                report.count(item.rule, refused != item.accepted, item.vector_id)
                same = {refused} == {index in again, index + len(batch) in again}
                report.count(REPEAT_RULE, same, item.vector_id)
            report.items += len(batch)
    return report


def _items(tenant: str) -> Iterator[_Item]:
    good = [vector for vector in sequence_vectors() if vector.verdict == "accept"]
    for vector in (*event_vectors(), *good):
        for document in vector.events:
            is_own = document.get("tenant_id") == VECTOR_TENANT
            if is_own or vector.verdict == "reject":
                yield _Item(
                    vector_id=vector.id,
                    rule=vector.rule,
                    accepted=vector.verdict == "accept",
                    document={**document, "tenant_id": tenant} if is_own else document,
                )


def _batches(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    size = 0
    for item in items:
        length = len(json.dumps(item.document))
        if batch and (len(batch) == _BATCH_EVENTS or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def _post(client: httpx.Client, documents: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the indices of the events that the receiver rejects."""
    try:
        answer = client.post("/v1/events", json={"events": documents})
    except httpx.HTTPError as error:
        raise ReceiverUnusable(
            f"{client.base_url} cannot be reached: {type(error).__name__}. "
            "Give the URL of a running gateway, without /v1."
        ) from error
    try:
        body = answer.json()
        rejected = {int(each["index"]) for each in body["rejected"]}
        is_whole = body["accepted"] + len(rejected) == len(documents)
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if answer.status_code not in {200, 422} or not is_whole:
        raise ReceiverUnusable(
            f"{client.base_url} answered POST /v1/events with status {answer.status_code} and not "
            "with a count of accepted events and a list of rejected ones. "
            "The key needs the role agent and the tenant that --tenant names."
        )
    return rejected
