-- touched: the trajectories with an event at or after {floor}, an expression over kafka_partition.
-- Reads three small columns.
SELECT DISTINCT trajectory_id
FROM events
WHERE kafka_offset >= {floor}
ORDER BY trajectory_id
