"""Samples, policies and homes for the tests of previews."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from atdp.governance.decisions import RawRecord
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.governance.preview.report import PreviewReport, SampleComparison
from atdp.governance.preview.run import PreviewPolicies, PreviewView, run_preview
from atdp.governance.preview.samples import Sample, SampleWindow, TrajectorySampler
from atdp.governance.preview.trial_home import TrialHome
from atdp.runtime import ApiKey, Home, KeyStore
from atdp.schemas import (
    Action,
    Agent,
    Body,
    Event,
    Generation,
    Message as ChatMessage,
    Observation,
    Part,
    SigningKey,
    Source,
    TrajectoryEnded,
    deterministic_event_id,
    encode,
    signed_headers,
)

from .test_token_fidelity import HASH, CodePoints, ids

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NAME, USER, SERVER = "zorvax quilbax", "wexpat99", "93.184.216.34"
MAIL, CARD = "bob@corp.com", "4111 1111 1111 1111"
ACTIVE = """
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: names, version: 1}
applies_to: {tenants: [acme]}
purposes: [train, replay, analytics]
consent: {train: granted}
entities:
  PERSON: {do: surrogate}
  USER_ID: {do: replace, text: "<U>"}
  EMAIL_ADDRESS: {do: surrogate}
keys: [{entity: PERSON, names: [full_name]}, {entity: USER_ID, names: [username]}]
fields: [{path: "**", do: scan}]
"""
DRAFT = """
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: names, version: 2}
applies_to: {tenants: [acme]}
purposes: [train, replay, analytics]
consent: {train: granted}
entities:
  PERSON: {do: surrogate}
  EMAIL_ADDRESS: {do: mask}
  IP_ADDRESS: {do: surrogate}
  CREDIT_CARD: {do: quarantine}
keys: [{entity: PERSON, names: [full_name]}]
fields: [{path: "**", do: scan}]
"""
"""Finds servers too, no users, masks addresses, and quarantines events that hold a card."""
TEXTS = (
    f"hello {NAME}, mail {MAIL}",
    f"server {SERVER} asks",
    f'{{"full_name": "{NAME.title()}", "username": "{USER}", "n": 3}}',
    "one moment please",
)


def document(text: str) -> PolicyDocument:
    parsed = parse_policy(text, where="policy")
    assert isinstance(parsed, PolicyDocument)
    return parsed


def policies(
    draft: str = DRAFT, active: str | None = ACTIVE, tenants: Sequence[str] = ()
) -> PreviewPolicies:
    before = (
        {}
        if active is None
        else dict.fromkeys(document(active).applies_to.tenants, document(active))
    )
    return PreviewPolicies.of(document(draft), before, tenants)


def trajectory(
    name: str, texts: Iterable[str] = TEXTS, *, tenant: str = "acme", further: Iterable[Body] = ()
) -> list[Event]:
    said = [Observation(messages=(_message("user", text),)) for text in texts]
    bodies = [*said, *further, TrajectoryEnded(status="completed")]
    start = NOW - timedelta(days=3)
    return [
        Event(
            event_id=deterministic_event_id(start, tenant, name, str(seq)),
            tenant_id=tenant,  # type: ignore[arg-type]
            trajectory_id=name,  # type: ignore[arg-type]
            producer_id="p",
            seq=seq,
            occurred_at=start + timedelta(seconds=seq),
            agent=Agent(id="a"),
            source=Source(format="test"),
            body=body,
        )
        for seq, body in enumerate(bodies)
    ]


def model_call(text: str) -> Action:
    """Return a model call whose token ids are the code points of its texts."""
    return Action(
        type="generation",
        message=_message("assistant", text),
        generation=Generation(
            model="m",
            prompt_token_ids=tuple(ids("hi")),
            output_token_ids=tuple(ids(text)),
            output_logprobs=(-0.5,) * len(text),
            tokenizer_hash=HASH,
        ),
    )


def trajectories(count: int) -> list[Event]:
    """Return interleaved trajectories; every fifth one shows a card number."""
    every = [
        trajectory(f"t{number}", (*TEXTS, f"card {CARD}") if number % 5 == 0 else TEXTS)
        for number in range(count)
    ]
    longest = max(map(len, every))
    return [events[seq] for seq in range(longest) for events in every if seq < len(events)]


class PreviewHome:
    """A home with a key of acme; what previews read is signed with it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.keys = KeyStore(self.home.keys_db)
        self.key, _ = self.keys.create("acme", "agent")

    def raw(self, events: Iterable[Event], *, key: ApiKey | None = None) -> list[RawRecord]:
        records = []
        for offset, event in enumerate(events):
            value = encode(event)
            records.append(
                RawRecord(
                    key=event.key,
                    value=value,
                    headers=signed_headers(
                        SigningKey.parse(key or self.key), "raw", event.key, value
                    ),
                    topic="raw",
                    partition=0,
                    offset=offset,
                    timestamp=NOW - timedelta(days=1),
                    appended=True,
                )
            )
        return records

    def sample(
        self,
        events: Sequence[Event],
        sampled: PreviewPolicies,
        *,
        key: ApiKey | None = None,
        **window: Any,
    ) -> Sample:
        sampler = TrajectorySampler(a_window(**window), sampled.wants)
        for event, raw in zip(events, self.raw(events, key=key), strict=True):
            sampler.add(event.key, raw)
        return sampler.sample("raw")

    def preview(
        self,
        events: Sequence[Event],
        sampled: PreviewPolicies,
        *,
        show_raw: bool = False,
        key: ApiKey | None = None,
        **window: Any,
    ) -> PreviewReport:
        sample = self.sample(events, sampled, key=key, **window)
        with self.opened() as home:
            view = PreviewView(now=NOW, show_raw=show_raw)
            return run_preview(sampled, [sample], a_window(**window), home, view)

    @contextmanager
    def opened(self) -> Iterator[TrialHome]:
        with TrialHome.open(self.home) as home:
            yield replace(home, tokenizers=CodePoints())


def a_window(**fields: Any) -> SampleWindow:
    return SampleWindow(**{"since": NOW - timedelta(days=7), "until": NOW, "seed": 1, **fields})


def only(report: PreviewReport) -> SampleComparison:
    (sample,) = report.samples
    return sample


def counts(sample: SampleComparison) -> Mapping[str, tuple[int, int]]:
    """Return the values that both sides replace, by entity."""
    return {row.name: (row.active, row.draft) for row in sample.entities}


def without_cost(report: PreviewReport) -> PreviewReport:
    zero = [
        replace(each, cost=replace(each.cost, active_us=0, draft_us=0)) for each in report.samples
    ]
    return replace(report, samples=zero)


def _message(role: str, text: str) -> ChatMessage:
    return ChatMessage(role=role, parts=(Part(text=text),))
