-- whole_prompts(trajectory): the whole prompt of each generation of a trajectory, in rows of
-- tenant_id, trajectory_id, attempt, event_id, prompt_token_ids, kafka_offset.
--
-- Where `generations.prompt_prefix_event_id` is set, the prompt is the first `prompt_prefix_tokens`
-- tokens of the prompt and output of that earlier generation, followed by the row's own
-- `prompt_token_ids`. This function puts them together. `prompt_token_ids` is NULL where they are
-- not known, or where tokens of an earlier generation are not there.
CREATE MACRO whole_prompts(trajectory) AS TABLE
WITH RECURSIVE calls AS (
    SELECT
        tenant_id,
        trajectory_id,
        attempt,
        event_id,
        kafka_offset,
        prompt_token_ids AS own,
        prompt_prefix_event_id AS earlier,
        prompt_prefix_tokens AS prefix,
        coalesce(output_token_ids, []) AS output
    FROM generations
    WHERE trajectory_id = trajectory
),

whole AS (
    SELECT
        tenant_id,
        attempt,
        event_id,
        kafka_offset,
        own AS prompt,
        list_concat(own, output) AS tokens
    FROM calls
    WHERE earlier IS NULL AND own IS NOT NULL
    UNION ALL
    SELECT
        calls.tenant_id,
        calls.attempt,
        calls.event_id,
        calls.kafka_offset,
        list_concat(list_slice(whole.tokens, 1, calls.prefix), calls.own) AS prompt,
        list_concat(list_slice(whole.tokens, 1, calls.prefix), calls.own, calls.output) AS tokens
    FROM whole
    INNER JOIN calls
        ON
            calls.tenant_id = whole.tenant_id
            AND calls.attempt = whole.attempt
            AND calls.earlier = whole.event_id
            AND calls.kafka_offset > whole.kafka_offset
            AND calls.prefix <= len(whole.tokens)
    WHERE calls.own IS NOT NULL
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
