-- generations: the model calls of the trajectories that were asked for, in the order in which they
-- were sent (see `context`).
-- Each comes with the parameters of its event that may have altered the sampling and are no columns
-- of the table, and with the tokens that governance replaced in it. Run on a connection that holds only rows which allow the purpose.
SELECT
    generations.*,
    asked_with.frequency_penalty,
    asked_with.presence_penalty,
    asked_with.ext_json,
    asked_with.token_splices
FROM generations
LEFT JOIN (
    SELECT
        tenant_id,
        event_id,
        action.generation.sampling.frequency_penalty AS frequency_penalty,
        action.generation.sampling.presence_penalty AS presence_penalty,
        ext_json,
        action.generation.token_splices AS token_splices,
        min(kafka_offset) OVER (
            PARTITION BY tenant_id, trajectory_id, attempt, producer_id ORDER BY seq DESC
        ) AS place
    FROM events
    WHERE kind = 'action' AND {named}
) AS asked_with USING (tenant_id, event_id)
SEMI JOIN (
    SELECT tenant_id, trajectory_id, attempt
    FROM trajectories
    WHERE ({after}) AND (
{where}
    )
) AS asked USING (tenant_id, trajectory_id, attempt)
WHERE {named}
ORDER BY kafka_partition, coalesce(asked_with.place, kafka_offset), seq
