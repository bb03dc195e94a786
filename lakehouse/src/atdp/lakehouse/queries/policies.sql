-- policies: the policies that decided about the events of the selected trajectories.
SELECT DISTINCT
    governance.policy_id AS id,
    governance.policy_version AS version,
    governance.policy_hash AS hash
FROM events
SEMI JOIN ({selection}) USING (tenant_id, trajectory_id, attempt)
WHERE governance.policy_id IS NOT NULL
ORDER BY ALL
