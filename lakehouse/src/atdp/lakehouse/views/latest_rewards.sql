-- latest_rewards: of all rewards ever observed, the one that counts, per target and dimension.
--
-- Rule: a reward that another one names in `supersedes` is out, whatever the other says (a successor without a value
-- retracts it). Of the rest with a value, the latest by `observed_at` counts; on a tie, the one later in the log.
-- History stays in `rewards`; a target without a row here has no reward, which is not a reward of 0.
CREATE VIEW latest_rewards AS
SELECT *
FROM rewards AS r
WHERE r.value IS NOT NULL
  AND NOT EXISTS (
    SELECT 1
    FROM rewards AS successor
    WHERE successor.supersedes = r.event_id
      AND successor.tenant_id = r.tenant_id
      AND successor.trajectory_id = r.trajectory_id
  )
QUALIFY row_number() OVER (
    PARTITION BY tenant_id, trajectory_id, attempt, target_kind, target_event_id, target_step, dimension
    ORDER BY observed_at DESC, kafka_partition DESC, kafka_offset DESC
) = 1;
