"""The request for a preview: from a draft to a report.

Callers are stewards and operators. The caller of a tenant sees records and policies of this tenant
alone. Texts of records are shown to nobody but callers that may see raw data, and only after the
register has an entry about it: without the entry, nothing is shown.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from atdp.access import Authorizer, TenantData
from atdp.governance.errors import PolicyDecisionDenied, PreviewError
from atdp.governance.policy.document import ANY_TENANT, PolicyDocument
from atdp.governance.preview.decided import DecidedPolicies
from atdp.governance.preview.lake_samples import GovernedEvents, lake_sample
from atdp.governance.preview.report import PreviewReport
from atdp.governance.preview.run import PreviewPolicies, PreviewView, run_preview
from atdp.governance.preview.samples import Sample, SampleSource, SampleWindow, TrajectorySampler
from atdp.governance.preview.topic_samples import quarantine_sample, raw_sample
from atdp.governance.preview.trial_home import TrialHome
from atdp.governance.stage.settings import StageSettings
from atdp.runtime import Home, Principal, Register, RegisterEntry

ACCESS_AUDIT = "access_audit"
"""Kind of the entries of the register that say who saw raw data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewRequest:
    """The wishes of a caller. `tenants`: empty stands for all that the caller may see."""

    caller: Principal
    draft: PolicyDocument
    window: SampleWindow
    sources: Sequence[SampleSource] = ("raw",)
    tenants: Sequence[str] = ()
    show_raw: bool = False

    def checked_tenants(self) -> Sequence[str]:
        """Return the tenants that are sampled; empty: all that the draft applies to.

        Raises:
            PolicyDecisionDenied: the caller may not preview policies, or not for these tenants.
        """
        caller = self.caller
        if not caller.may("govern"):
            raise PolicyDecisionDenied(
                f"role {caller.role!r} may not preview policies; "
                "use a key of a steward or of the operator (--key, or ATDP_API_KEY)"
            )
        if not self.tenants:
            return () if caller.may_act_for(ANY_TENANT) else (caller.tenant,)
        for tenant in self.tenants:
            if not caller.may_act_for(tenant):
                raise PolicyDecisionDenied(
                    f"this key belongs to another tenant than {tenant!r}, so its records "
                    "cannot be sampled"
                )
        return tuple(self.tenants)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewPlace:
    """The stack that a preview reads from."""

    home: Home
    settings: StageSettings
    register: Register
    """Takes the entry about access to raw data."""
    decided: DecidedPolicies
    lake: GovernedEvents | None = None
    authorizer: Authorizer


def preview_policy(
    request: PreviewRequest,
    place: PreviewPlace,
    *,
    now: datetime,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> PreviewReport:
    """Run a draft on samples beside the active version. Only the access to raw data is written.

    Raises:
        PolicyError: the draft does not compile.
        PreviewError: there are no records, or they cannot be read.
        PolicyDecisionDenied: the caller may not preview, or not see raw data.
        RegisterUnavailable: the active policies cannot be read, or the access not be recorded.
    """
    tenants = request.checked_tenants()
    named = {ANY_TENANT, *(tenants or request.draft.applies_to.tenants)}
    decides_all = not tenants and ANY_TENANT in request.draft.applies_to.tenants
    decided = place.decided
    policies = PreviewPolicies.of(
        request.draft,
        decided.active(lambda tenant: decides_all or tenant in named),
        tenants,
        decided.rules.consent_at_capture,
    )
    if request.show_raw:
        for tenant in tenants or request.draft.applies_to.tenants:
            _record_access(request, place, tenant, now)
    with TrialHome.open(place.home) as home:
        samples = [_sample(source, request, place, policies, home) for source in request.sources]
        view = PreviewView(now=now, show_raw=request.show_raw, progress=progress)
        return run_preview(policies, samples, request.window, home, view)


def _sample(
    source: SampleSource,
    request: PreviewRequest,
    place: PreviewPlace,
    policies: PreviewPolicies,
    home: TrialHome,
) -> Sample:
    sampler = TrajectorySampler(request.window, policies.wants)
    if source == "raw":
        return raw_sample(place.settings, sampler)
    if source == "quarantine":
        return quarantine_sample(place.settings, home.secrets, sampler)
    if place.lake is None:
        raise PreviewError("there is no lake to sample; choose raw or quarantine")
    return lake_sample(place.lake, sampler)


def _record_access(
    request: PreviewRequest, place: PreviewPlace, tenant: str, now: datetime
) -> None:
    """Decide about the access to raw data of a tenant, and record the decision.

    Raises:
        PolicyDecisionDenied: it is denied; nothing may be shown.
        RegisterUnavailable: it is not recorded; nothing may be shown.
    """
    decision = place.authorizer.authorize(request.caller, "preview", TenantData(tenant=tenant), now)
    place.register.append(
        RegisterEntry(
            kind=ACCESS_AUDIT,
            key=str(uuid.uuid4()),
            body={
                "action": "preview",
                "resource": _resource(request),
                "decision": "allow" if decision.allowed else "deny",
                "policies": list(decision.policies),
                "tenant": tenant,
            },
            actor=request.caller.actor,
            recorded_at=now,
        )
    )
    if not decision.allowed:
        raise PolicyDecisionDenied(
            f"raw data of {tenant} is not shown to this caller ({decision.explanation}); "
            "without --raw the preview shows names of entities in place of values"
        )


def _resource(request: PreviewRequest) -> Mapping[str, object]:
    """Return what was asked for, without any of the data."""
    metadata, window = request.draft.metadata, request.window
    return {
        "draft": f"{metadata.id}@{metadata.version}",
        "sources": list(request.sources),
        "since": window.since.isoformat(),
        "until": window.until.isoformat(),
        "trajectories": window.trajectories,
        "seed": window.seed,
    }
