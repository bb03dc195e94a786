-- stamps: every different stamp, by tenant, of events that allow a purpose; everything that a
-- permission depends on (see stamped_data). Events that do not allow it refuse their trajectory by
-- themselves. {named} limits the trajectories that are looked at; {purpose} is a string literal.
SELECT DISTINCT
    tenant_id,
    governance.purposes AS purposes,
    governance.consent AS consent,
    governance.classification AS classification,
    governance.policy_id AS policy_id,
    governance.policy_version AS policy_version,
    governance.token_fidelity AS token_fidelity,
    agent.id AS agent
FROM events
WHERE {named} AND list_contains(governance.purposes, {purpose})
