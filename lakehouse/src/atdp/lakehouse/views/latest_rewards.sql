-- latest_rewards: the reward that counts, per target and dimension.
--
-- A reward that another one names in `supersedes` does not count, whatever the other one says; a
-- successor without a value retracts it. Of the remaining rewards with a value, one that was derived
-- by a rule comes before those that were observed, which are its evidence; else the latest by
-- `observed_at` counts; a reward whose time nobody knows comes before all others, and on a tie the
-- one that is later in the log counts. All rewards stay in `rewards`.
-- A reward that its sender may not give (`self_reward` is `analytics`) counts for analytics alone,
-- behind all others, and supersedes none but its like.
-- A target without a row here has no reward, which is not a reward of 0.
CREATE VIEW latest_rewards AS
SELECT *
FROM rewards AS r
WHERE r.value IS NOT NULL
  AND counts_as_reward(r.self_reward)
  AND NOT EXISTS (
    SELECT 1
    FROM rewards AS successor
    WHERE successor.supersedes = r.event_id
      AND successor.tenant_id = r.tenant_id
      AND successor.trajectory_id = r.trajectory_id
      AND coalesce(successor.self_reward = 'train', true)
  )
  AND NOT EXISTS (
    SELECT 1
    FROM rewards AS successor
    WHERE successor.supersedes = r.event_id
      AND successor.tenant_id = r.tenant_id
      AND successor.trajectory_id = r.trajectory_id
      AND successor.self_reward = r.self_reward
  )
QUALIFY row_number() OVER (
    PARTITION BY
        tenant_id, trajectory_id, attempt, target_kind, target_event_id, target_step, dimension
    ORDER BY
        coalesce(self_reward = 'analytics', false), rule IS NULL, observed_at DESC NULLS LAST, kafka_partition DESC, kafka_offset DESC
) = 1;
