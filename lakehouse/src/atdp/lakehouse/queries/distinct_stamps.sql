-- distinct_stamps: every different stamp of the events of one trajectory, all attempts together.
-- {tenant} and {trajectory} are string literals.
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
WHERE tenant_id = {tenant} AND trajectory_id = {trajectory}
ORDER BY ALL
