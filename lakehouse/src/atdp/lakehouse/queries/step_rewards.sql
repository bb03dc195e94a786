-- step_rewards: the reward that counts for every step, and for every event of a step, of the
-- trajectories that were asked for: dimension `outcome` before any other, then the latest (see
-- latest_rewards). A reward for an event names the event's step as well; a preference between two
-- events is no reward of one of them. Run on a connection that holds only rows which allow the
-- purpose.
SELECT
    r.tenant_id,
    r.trajectory_id,
    r.attempt,
    coalesce(r.target_step, e.step) AS step,
    r.target_event_id AS event_id,
    arg_max(
        r.value,
        (r.dimension = 'outcome', coalesce(r.observed_at, '-infinity'), r.kafka_offset)
    ) AS value
FROM (
    SELECT *
    FROM latest_rewards
    SEMI JOIN (
        SELECT tenant_id, trajectory_id, attempt
        FROM trajectories
        WHERE ({after}) AND (
{where}
        )
    ) AS asked USING (tenant_id, trajectory_id, attempt)
) AS r
LEFT JOIN (SELECT tenant_id, event_id, step FROM events WHERE {named}) AS e
    ON
        r.target_kind = 'event'
        AND e.tenant_id = r.tenant_id
        AND e.event_id = r.target_event_id
WHERE
    r.target_kind IN ('step', 'event')
    AND r.compared_to IS NULL
    AND coalesce(r.target_step, e.step) IS NOT NULL
GROUP BY ALL
ORDER BY r.tenant_id, r.trajectory_id, r.attempt, step, r.target_event_id NULLS FIRST
