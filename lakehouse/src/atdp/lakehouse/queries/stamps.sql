-- stamps: every different stamp, by tenant, of the events for which {condition} holds; everything
-- that a permission depends on (see stamped_data).
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
WHERE {condition}
ORDER BY ALL
