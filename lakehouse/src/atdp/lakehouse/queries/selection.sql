-- selection: the trajectories that a dataset's filter selects, in the order of the log.
SELECT *
FROM trajectories
WHERE (
{where}
)
ORDER BY first_offset, kafka_partition, tenant_id, trajectory_id, attempt
