-- generations: the model calls of the trajectories that were asked for, in the order of the log. Run on a connection
-- that holds only rows which allow the purpose.
SELECT generations.*
FROM generations
SEMI JOIN (
    SELECT tenant_id, trajectory_id, attempt
    FROM trajectories
    WHERE ({after}) AND (
{where}
    )
) AS asked USING (tenant_id, trajectory_id, attempt)
WHERE {named}
ORDER BY kafka_partition, kafka_offset
