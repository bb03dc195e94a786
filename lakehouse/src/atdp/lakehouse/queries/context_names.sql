-- context_names: the same as `context`, with the number of messages in place of the messages. It is
-- enough to check that the context of every model call is complete.
SELECT
    tenant_id,
    trajectory_id,
    attempt,
    event_id,
    producer_id,
    seq,
    kind,
    len(observation.messages) AS messages,
    observation.context_base AS context_base,
    observation.context_hash AS context_hash,
    coalesce(action.message.role, outcome.message.role) IS NOT NULL AS message,
    gap.from_seq AS missing_from
FROM events
SEMI JOIN (
    SELECT tenant_id, trajectory_id, attempt
    FROM trajectories
    WHERE ({after}) AND (
{where}
    )
) AS asked USING (tenant_id, trajectory_id, attempt)
WHERE {named}
ORDER BY
    kafka_partition,
    min(kafka_offset) OVER (
        PARTITION BY tenant_id, trajectory_id, attempt, producer_id ORDER BY seq DESC
    ),
    seq
