-- whole_prompts(trajectory): the whole prompt of each generation of a trajectory, in rows of
-- tenant_id, trajectory_id, attempt, event_id, prompt_token_ids, kafka_offset.
--
-- Where `generations.prompt_prefix_event_id` is set, the prompt is the first `prompt_prefix_tokens`
-- tokens of the prompt and output of that earlier generation, followed by the row's own
-- `prompt_token_ids`. This function puts them together. The prefix counts the producer's tokens;
-- where governance replaced some (`token_splices`), it ends at the same place of the governed ones.
-- `prompt_token_ids` is NULL where they are not known, where tokens of an earlier generation are
-- not there, or where a prefix ends within replaced tokens.
CREATE MACRO whole_prompts(trajectory) AS TABLE
WITH RECURSIVE calls AS (
    SELECT
        tenant_id,
        trajectory_id,
        generations.attempt,
        event_id,
        generations.kafka_offset,
        generations.prompt_token_ids AS own,
        generations.prompt_prefix_event_id AS earlier,
        generations.prompt_prefix_tokens AS prefix,
        coalesce(generations.output_token_ids, []) AS output,
        coalesce(events.action.generation.token_splices, []) AS splices
    FROM generations
    INNER JOIN events USING (tenant_id, trajectory_id, event_id)
    WHERE trajectory_id = trajectory
),

whole AS (
    SELECT
        tenant_id,
        attempt,
        event_id,
        kafka_offset,
        own AS prompt,
        list_concat(own, output) AS tokens,
        splices
    FROM calls
    WHERE earlier IS NULL AND own IS NOT NULL
    UNION ALL
    SELECT
        tenant_id,
        attempt,
        event_id,
        kafka_offset,
        list_concat(list_slice(tokens, 1, prefix + moved), own) AS prompt,
        list_concat(list_slice(tokens, 1, prefix + moved), own, output) AS tokens,
        list_concat(kept, [
            {'start': each.start + prefix, 'end': each.end + prefix, 'tokens': each.tokens}
            FOR each IN splices
        ]) AS splices
    FROM (
        SELECT
            *,
            coalesce(list_sum([each.tokens - each.end + each.start FOR each IN kept]), 0) AS moved
        FROM (
            SELECT
                calls.*,
                whole.tokens,
                [each FOR each IN whole.splices IF each.start < calls.prefix] AS kept
            FROM whole
            INNER JOIN calls
                ON
                    calls.tenant_id = whole.tenant_id
                    AND calls.attempt = whole.attempt
                    AND calls.earlier = whole.event_id
                    AND calls.kafka_offset > whole.kafka_offset
            WHERE calls.own IS NOT NULL
        )
    )
    WHERE prefix + moved <= len(tokens) AND coalesce(kept[-1].end <= prefix, TRUE)
)

SELECT
    calls.tenant_id,
    calls.trajectory_id,
    calls.attempt,
    calls.event_id,
    whole.prompt AS prompt_token_ids,
    calls.kafka_offset
FROM calls
LEFT JOIN whole USING (tenant_id, attempt, event_id)
ORDER BY calls.kafka_offset;
