-- trajectories: one row per trajectory and attempt, folded over its events, with its reward.
--
-- `reward` is the latest reward for the whole trajectory, dimension `outcome` before any other (see
-- latest_rewards), whenever it came; NULL means that there is none yet, which is not a reward of 0.
-- `status` is `open` until the trajectory has ended, and again when messages or actions follow an end
-- with the status `idle`. `training_eligible` is true when every event is eligible;
-- `eligibility_reason` is the first reason against it. `token_fidelity` is the worst of its
-- generations, NULL without any. `messages` counts the messages that its events added to the
-- context. Offsets include late rewards, so `last_offset` moves when one arrives. `started_at` and
-- `ended_at` are NULL where nobody knows the times. A sum of tokens or microseconds that is beyond
-- 64 bits is NULL. `settled` is false while governance has learned values from the trajectory with
-- which earlier events are still to be governed again: until then it may not be trained on, replayed
-- or exported. It stays false when governance had forgotten what it learned and the trajectory went
-- on: then a second event has the settled version -1 (governance knew none before it). It is about
-- all attempts of a trajectory together, and true for one that taught nothing.
CREATE VIEW trajectories AS
WITH folded AS (
    SELECT
        tenant_id,
        trajectory_id,
        attempt,
        arg_min(task_id, kafka_offset) AS task_id,
        arg_min(group_id, kafka_offset) AS group_id,
        arg_min(session_id, kafka_offset) AS session_id,
        arg_min(end_user_id, kafka_offset) AS end_user_id,
        arg_min(agent.id, kafka_offset) AS agent_id,
        min(occurred_at) AS started_at,
        max(occurred_at) FILTER (kind = 'trajectory_ended') AS ended_at,
        coalesce(
            arg_max(trajectory_ended.status, kafka_offset) FILTER (kind = 'trajectory_ended'),
            'open'
        ) AS status,
        coalesce(
            max(kafka_offset) FILTER (kind IN ('observation', 'action', 'outcome'))
            > max(kafka_offset) FILTER (kind = 'trajectory_ended'),
            false
        ) AS goes_on,
        count(DISTINCT step) FILTER (kind = 'action') AS steps,
        count(*) FILTER (kind = 'action' AND action.type = 'generation') AS generations,
        count(*) FILTER (kind = 'action' AND action.type = 'tool_call') AS tool_calls,
        CAST(
            sum(
                coalesce(len(observation.messages), 0)
                + (action.message.role IS NOT NULL)::INTEGER
                + (outcome.message.role IS NOT NULL)::INTEGER
            ) AS BIGINT
        ) AS messages,
        arg_min(
            coalesce(versions.weights, action.generation.policy_versions[1].version), kafka_offset
        )
            FILTER (kind = 'action' AND action.type = 'generation') AS weight_version,
        list_sort(
            list(DISTINCT coalesce(versions.weights, action.generation.policy_versions[1].version))
                FILTER (kind = 'action' AND action.type = 'generation')
        ) AS weight_versions,
        TRY_CAST(sum(usage.input_tokens) AS BIGINT) AS input_tokens,
        TRY_CAST(sum(usage.output_tokens) AS BIGINT) AS output_tokens,
        TRY_CAST(sum(latency_us) AS BIGINT) AS latency_us,
        sum(cost.amount) AS cost,
        bool_and(coalesce(governance.training_eligible, false)) AS training_eligible,
        coalesce(
            arg_min(coalesce(governance.eligibility_reason, 'not_stamped'), kafka_offset)
                FILTER (NOT coalesce(governance.training_eligible, false)),
            arg_min(governance.eligibility_reason, kafka_offset)
        ) AS eligibility_reason,
        -- exact < context_changed < spliced < dropped < unknown
        [NULL, 'exact', 'context_changed', 'spliced', 'dropped', 'unknown'][
            1 + coalesce(
                max(
                    coalesce(
                        list_position(
                            ['exact', 'context_changed', 'spliced', 'dropped'],
                            governance.token_fidelity
                        ),
                        5
                    )
                ) FILTER (kind = 'action' AND action.type = 'generation'),
                0
            )
        ] AS token_fidelity,
        max(coalesce(governance.learned_version, 0)) AS learned_version,
        max(
            -- The first event settles what it teaches itself.
            if(
                governance.settled_version < 0 AND regoverned_offset IS NULL,
                governance.learned_version,
                coalesce(governance.settled_version, 0)
            )
        ) AS settled_version,
        count(*) FILTER (governance.settled_version < 0) AS beginnings,
        max(kafka_offset) FILTER (governance.settled_version < 0) AS beginning,
        min(kafka_offset) FILTER (
            governance.settled_version < 0 OR governance.learned_version > 0
        ) AS knowing_since,
        min(kafka_offset) AS first_offset,
        max(kafka_offset) AS last_offset,
        any_value(kafka_partition) AS kafka_partition,
        arg_min(source.format, kafka_offset) AS source_format
    FROM events
    GROUP BY tenant_id, trajectory_id, attempt
),

rewarded AS (
    SELECT
        tenant_id,
        trajectory_id,
        attempt,
        arg_max(
            value, (dimension = 'outcome', coalesce(observed_at, '-infinity'), kafka_offset)
        ) AS reward,
        arg_max(
            source_name, (dimension = 'outcome', coalesce(observed_at, '-infinity'), kafka_offset)
        ) AS reward_source
    FROM latest_rewards
    WHERE target_kind = 'trajectory'
    GROUP BY tenant_id, trajectory_id, attempt
)

SELECT
    folded.* EXCLUDE (
        weight_version, weight_versions, input_tokens, output_tokens, latency_us, cost,
        training_eligible, eligibility_reason, token_fidelity, learned_version, settled_version,
        beginnings, beginning, knowing_since, first_offset, last_offset, kafka_partition,
        source_format, goes_on
    ) REPLACE (
        if(status = 'idle' AND goes_on, NULL, ended_at) AS ended_at,
        if(status = 'idle' AND goes_on, 'open', status) AS status
    ),
    rewarded.reward,
    rewarded.reward_source,
    folded.weight_version,
    folded.weight_versions,
    folded.input_tokens,
    folded.output_tokens,
    folded.latency_us,
    folded.cost,
    folded.training_eligible,
    folded.eligibility_reason,
    folded.token_fidelity,
    max(folded.learned_version) OVER whole = 0
    OR (
        max(folded.settled_version) OVER whole >= max(folded.learned_version) OVER whole
        AND sum(folded.beginnings) OVER whole <= 1
        AND coalesce(
            max(folded.beginning) OVER whole <= min(folded.knowing_since) OVER whole, true
        )
    ) AS settled,
    folded.first_offset,
    folded.last_offset,
    folded.kafka_partition,
    folded.source_format
FROM folded
LEFT JOIN rewarded USING (tenant_id, trajectory_id, attempt)
WINDOW whole AS (PARTITION BY folded.tenant_id, folded.trajectory_id);
