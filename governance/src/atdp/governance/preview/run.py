"""The run of a preview: samples in, a report out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from atdp.governance.consent import RegisteredConsent
from atdp.governance.errors import PreviewError
from atdp.governance.policy.compiled import CompiledPolicy, compile_policy
from atdp.governance.policy.document import ANY_TENANT, PolicyDocument
from atdp.governance.preview.comparison import PreviewSides, compare
from atdp.governance.preview.examples import ExampleChoice
from atdp.governance.preview.lake_samples import lake_home
from atdp.governance.preview.report import PolicyIdentity, PreviewReport
from atdp.governance.preview.samples import Sample, SampleWindow
from atdp.governance.preview.trial import TrialPolicies, consent_unregistered
from atdp.governance.preview.trial_home import TrialHome


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewPolicies:
    """The draft of a preview, compiled, and the active policies of its tenants.

    `tenants`: those that are sampled; empty stands for all to which the draft would apply.
    """

    draft: CompiledPolicy
    active: Mapping[str, CompiledPolicy] = field(default_factory=dict)
    tenants: Sequence[str] = ()
    consent: RegisteredConsent = consent_unregistered

    @classmethod
    def of(
        cls,
        draft: PolicyDocument,
        active: Mapping[str, PolicyDocument],
        tenants: Sequence[str] = (),
        consent: RegisteredConsent = consent_unregistered,
    ) -> "PreviewPolicies":
        """Compile the documents; `active` holds them by tenant, `*` for all that none names.

        Raises:
            PolicyError: the draft does not compile.
            PreviewError: the draft does not apply to a tenant of `tenants`.
        """
        named = draft.applies_to.tenants
        strangers = sorted(set(tenants) - set(named))
        if strangers and ANY_TENANT not in named:
            raise PreviewError(
                f"the draft {draft.metadata.id}@{draft.metadata.version} does not apply to "
                f"{', '.join(strangers)}; it applies to {', '.join(named)}"
            )
        compiled: dict[str, CompiledPolicy] = {}
        by_tenant: dict[str, CompiledPolicy] = {}
        for tenant, document in active.items():
            key = document.content_hash
            compiled[key] = compiled.get(key) or compile_policy(document)
            by_tenant[tenant] = compiled[key]
        return cls(
            draft=compiled.get(draft.content_hash) or compile_policy(draft),
            active=by_tenant,
            tenants=tuple(tenants),
            consent=consent,
        )

    def wants(self, tenant: str) -> bool:
        """Return whether the records of a tenant are sampled."""
        if self.tenants:
            return tenant in self.tenants
        named = self.draft.document.applies_to.tenants
        if tenant in named:
            return True
        # Activated beside a policy that names a tenant, a policy for all others leaves it alone.
        other = self.active.get(tenant)
        return ANY_TENANT in named and (other is None or other.id == self.draft.id)

    def sides(self, home: TrialHome, now: datetime) -> PreviewSides:
        """Return both sides, each with its policies by tenant."""
        draft = dict.fromkeys((*self.draft.document.applies_to.tenants, *self.tenants), self.draft)
        return PreviewSides(
            home=home,
            active=TrialPolicies(self.active, self.consent),
            draft=TrialPolicies(draft, self.consent),
            now=now,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewView:
    """The time of a preview, and what its caller sees of it.

    `show_raw`: the caller may see raw data, and that it asked for them is recorded. `progress` is
    called with the number of trajectories of a sample that are done, and of all.
    """

    now: datetime
    show_raw: bool = False
    progress: Callable[[int, int], None] = lambda _done, _of: None


def run_preview(
    policies: PreviewPolicies,
    samples: Sequence[Sample],
    window: SampleWindow,
    home: TrialHome,
    view: PreviewView,
) -> PreviewReport:
    """Run a draft on samples beside the active policies. Nothing is written.

    Raises:
        PreviewError: there is no record in any of the samples.
        HomeUnavailable: nothing can be governed now.
    """
    if not any(sample.trajectories for sample in samples):
        sources = ", ".join(sample.source for sample in samples)
        raise PreviewError(
            f"no record of {_named(policies)} in {sources} between {window.since.isoformat()} and "
            f"{window.until.isoformat()}; choose an earlier --since or another --from"
        )
    now = view.now
    sides = policies.sides(home, now)
    used = (policies.draft, *policies.active.values())
    entities = frozenset(entity for policy in used for entity in policy.operators)
    comparisons = [
        compare(
            sample,
            policies.sides(lake_home(home), now) if sample.source == "lake" else sides,
            ExampleChoice(seed=window.seed, entities=entities, show_raw=view.show_raw),
            window.kinds,
            view.progress,
        )
        for sample in samples
    ]
    seen = sorted({each.tenant for sample in samples for each in sample.trajectories})
    active = [sides.active.usable_for(tenant) for tenant in seen]
    identities = {PolicyIdentity.of(each.document) for each in active if each is not None}
    return PreviewReport(
        draft=PolicyIdentity.of(policies.draft.document),
        active=sorted(identities, key=lambda each: (each.id, each.version)),
        without_policy=[
            tenant for tenant, policy in zip(seen, active, strict=True) if policy is None
        ],
        tenants=seen,
        kinds=sorted(window.kinds or ()),
        since=window.since,
        until=window.until,
        trajectories=window.trajectories,
        seed=window.seed,
        made_at=now,
        engine=policies.draft.engine,
        raw_shown=view.show_raw,
        samples=comparisons,
    )


def _named(policies: PreviewPolicies) -> str:
    tenants = policies.tenants or policies.draft.document.applies_to.tenants
    return "any tenant" if ANY_TENANT in tenants else ", ".join(tenants)
