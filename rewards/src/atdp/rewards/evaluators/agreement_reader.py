"""The agreement of a home's evaluators with people, from the lake."""

from atdp.lakehouse import Lake, connect
from atdp.rewards.evaluators.agreement import Agreement, measure_agreement
from atdp.rewards.evidence_reader import changed_attempts, read_evidence
from atdp.rewards.rules_file import Limits
from atdp.rewards.rules_store import RulesStore


def read_agreement(
    lake: Lake, rules: RulesStore, tenant: str | None = None
) -> list[tuple[str, list[Agreement]]]:
    """Return the tenants (or one) with the agreement of their evaluators.

    Raises:
        LakehouseError: the lake cannot be read.
        RulesError: the rules file of a tenant, which limits ratings, is wrong.
    """
    with connect(lake=lake, tenant=tenant, purpose="train") as connection:
        attempts = changed_attempts(connection, after={}, tenant=tenant)
        found = []
        for name in sorted({attempt.tenant for attempt in attempts}):
            of_tenant = [attempt for attempt in attempts if attempt.tenant == name]
            tenant_rules = rules.rules_of(name)
            limits = Limits() if tenant_rules is None else tenant_rules.limits
            evidence = read_evidence(connection, name, of_tenant, limits)
            found.append((name, measure_agreement(evidence)))
    return found
