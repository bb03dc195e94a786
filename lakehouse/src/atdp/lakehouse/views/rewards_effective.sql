-- rewards_effective: the reward that counts, per target and dimension, with its reasons.
--
-- `rule` is the rule of the tenant's rules file that gave it, `rules_version` that file's version
-- and hash, and `evidence` lists the ids of the events that it was derived from. They are NULL and
-- empty for a reward that a producer observed. `principal` is the key that signed it, beside which
-- `source_name` is a claim. `latest_rewards` has all columns of the same rows.
CREATE VIEW rewards_effective AS
SELECT
    tenant_id,
    trajectory_id,
    attempt,
    target_kind,
    target_event_id,
    target_step,
    dimension,
    value,
    source_name,
    rule,
    CASE WHEN rule IS NOT NULL THEN evaluator_version END AS rules_version,
    evidence,
    confidence,
    observed_at,
    event_id,
    principal,
    principal_role,
    self_reward
FROM latest_rewards;
