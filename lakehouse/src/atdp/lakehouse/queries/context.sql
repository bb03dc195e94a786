-- context: the events that add messages to a trajectory's context, in the order of the log.
-- `atdp.schemas.extend` folds them.
SELECT
    tenant_id,
    trajectory_id,
    attempt,
    observation.messages AS messages,
    observation.context_base AS context_base,
    observation.tools_json AS tools_json,
    coalesce(action.message, outcome.message) AS message
FROM events
SEMI JOIN (
    SELECT tenant_id, trajectory_id, attempt
    FROM trajectories
    WHERE ({after}) AND (
{where}
    )
) AS asked USING (tenant_id, trajectory_id, attempt)
WHERE
    (
        kind = 'observation'
        OR (kind = 'action' AND action.message.role IS NOT NULL)
        OR (kind = 'outcome' AND outcome.message.role IS NOT NULL)
    )
    AND {named}
ORDER BY kafka_partition, kafka_offset
