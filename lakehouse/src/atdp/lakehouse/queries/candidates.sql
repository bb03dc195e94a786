-- candidates: every trajectory that was asked for, with its stamps, versions and counts only, so that
-- a refusal can be counted with its reason before any content is read. {purpose} is a string literal, {where} a
-- boolean expression over `trajectories`; {after} and {named} select the trajectories that are
-- newer than a position (see reader). The replay class costs a tenth of a read, so training, which
-- reads often, goes without it.
SELECT
    t.tenant_id,
    t.trajectory_id,
    t.attempt,
    t.task_id,
    t.group_id,
    t.session_id,
    t.agent_id,
    t.status,
    t.reward,
    t.reward_source,
    t.training_eligible,
    t.eligibility_reason,
    t.token_fidelity,
    t.settled,
    if({purpose} = 'train', NULL, t.replay_class) AS replay_class,
    if({purpose} = 'train', NULL, t.replay_reason) AS replay_reason,
    t.first_offset,
    t.last_offset,
    t.kafka_partition,
    stamps.prompt_version,
    stamps.tools_version,
    stamps.tool_errors,
    stamps.without_stamp,
    stamps.without_purpose,
    stamps.without_consent,
    stamps.withdrawn,
    stamps.otherwise_ineligible,
    stamps.self_rewarded
FROM trajectories AS t
INNER JOIN (
    SELECT
        tenant_id,
        trajectory_id,
        attempt,
        arg_min(versions.prompt, kafka_offset)
            FILTER (kind = 'action' AND action.type = 'generation') AS prompt_version,
        arg_min(versions.tools, kafka_offset)
            FILTER (kind = 'action' AND action.type = 'generation') AS tools_version,
        count(*) FILTER (kind = 'outcome' AND outcome.result = 'error') AS tool_errors,
        bool_or(governance.policy_id IS NULL) AS without_stamp,
        bool_or(
            NOT coalesce(list_contains(governance.purposes, {purpose}), false)
        ) AS without_purpose,
        bool_or(coalesce(governance.consent, 'unknown') <> 'granted') AS without_consent,
        bool_or(coalesce(governance.consent, 'unknown') = 'withdrawn') AS withdrawn,
        bool_or(
            NOT coalesce(governance.training_eligible, false)
            AND NOT coalesce(
                starts_with(governance.eligibility_reason, 'token_fidelity_')
                OR governance.eligibility_reason = 'ids_do_not_match_text',
                false
            )
        ) AS otherwise_ineligible,
        bool_or(
            kind = 'reward' AND NOT counts_as_reward(governance.self_reward)
        ) AS self_rewarded
    FROM events
    WHERE {named}
    GROUP BY tenant_id, trajectory_id, attempt
) AS stamps USING (tenant_id, trajectory_id, attempt)
WHERE ({after}) AND (
{where}
)
ORDER BY t.first_offset, t.kafka_partition, t.tenant_id, t.trajectory_id, t.attempt
