"""Samples of events that are in the lake already.

They were governed before, so a preview on them shows only what the draft would change beyond that:
values that the policy of their time has replaced are not there any more. They carry no signature
of their producer. Each is signed here with a key that exists in this process alone, so that it can
take the same path as a raw record.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol

from atdp.governance.decisions import RawRecord
from atdp.governance.errors import PreviewError
from atdp.governance.preview.samples import Sample, SampleWindow, TrajectorySampler
from atdp.governance.preview.trial_home import TrialHome
from atdp.runtime import Principal, StoredKey
from atdp.schemas import SchemaError, SigningKey, encode_record, record_key, signed_headers

_KEY_ID: Final = "preview:"
_TOPIC: Final = "lake"
_SEED: Final = secrets.token_bytes(32)


class GovernedEvents(Protocol):
    """The events of the lake that a preview may read."""

    def trajectories(self, window: SampleWindow) -> Iterable[tuple[str, str]]:
        """Return tenant and id of each trajectory with an event in the window."""
        ...

    def events(
        self, window: SampleWindow, trajectories: Sequence[tuple[str, str]]
    ) -> Iterable[Mapping[str, Any]]:
        """Return the events of trajectories within the window, in the order of their log."""
        ...


def lake_sample(lake: GovernedEvents, sampler: TrajectorySampler) -> Sample:
    """Return a sample of governed events.

    Raises:
        PreviewError: an event does not fit the schema, or the sample is too large.
    """
    window = sampler.window
    keys = {record_key(*each): each for each in lake.trajectories(window)}
    for key in keys:
        sampler.offer(key)
    chosen = [keys[key] for key in sampler.drawn]
    for number, event in enumerate(lake.events(window, chosen)):
        tenant = str(event["tenant_id"])
        try:
            value = encode_record("event", event)
        except SchemaError as error:
            raise PreviewError(f"an event of the lake does not fit the schema: {error}") from error
        signing = SigningKey(key_id=_KEY_ID + tenant, seed=_SEED)
        occurred_at: datetime = event["occurred_at"]
        key = record_key(tenant, event["trajectory_id"])
        raw = RawRecord(
            key=key,
            value=value,
            headers=signed_headers(signing, _TOPIC, key, value),
            topic=_TOPIC,
            partition=0,
            offset=number,
            timestamp=occurred_at,
        )
        sampler.add(key, raw)
    return sampler.sample("lake")


def lake_home(home: TrialHome) -> TrialHome:
    """Return the home with the keys of `lake_sample` alone."""
    return replace(home, keys=_own_key)


def _own_key(key_id: str) -> StoredKey | None:
    if not key_id.startswith(_KEY_ID):
        return None
    return StoredKey(
        principal=Principal(key_id=key_id, tenant=key_id.removeprefix(_KEY_ID), role="agent"),
        public_key=SigningKey(key_id=key_id, seed=_SEED).public_key,
        created_at_us=0,
    )
