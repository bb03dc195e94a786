-- context: every event of the trajectories that were asked for, with what it adds to the context, in
-- the order in which they were sent. `atdp.schemas.ContextFold` folds them; events that add nothing
-- show holes in the sequence. The order is that of the log, except for an event that landed after
-- later ones of its producer, as one that was released from quarantine does: it stands before them.
SELECT
    tenant_id,
    trajectory_id,
    attempt,
    event_id,
    producer_id,
    seq,
    kind,
    observation.messages AS messages,
    observation.context_base AS context_base,
    observation.context_hash AS context_hash,
    observation.tools_hash AS tools_hash,
    observation.tools_json AS tools_json,
    coalesce(action.message, outcome.message) AS message,
    gap.from_seq AS missing_from,
    governance.content_hash AS content_hash
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
