-- selected_keys: what a dataset's digest is taken over.
SELECT
    tenant_id,
    trajectory_id,
    attempt
FROM ({selection})
ORDER BY ALL
