-- selection: the trajectories that a dataset's filter selects, in the order of the log. Trajectories
-- that wait to be governed again are none of it.
SELECT *
FROM trajectories
WHERE settled AND (
{where}
)
ORDER BY first_offset, kafka_partition, tenant_id, trajectory_id, attempt
