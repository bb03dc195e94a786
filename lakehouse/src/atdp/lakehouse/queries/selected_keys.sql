-- selected_keys: the keys over which a dataset's digest is computed.
SELECT
    tenant_id,
    trajectory_id,
    attempt
FROM ({selection})
ORDER BY ALL
