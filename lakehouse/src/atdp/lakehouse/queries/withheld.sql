-- withheld: the data that consent or retention may withhold now, by everything that decides about
-- it: {reach} is a condition over `events` that holds for all of it (see withheld). {named} limits
-- the trajectories that are looked at. An event's age counts from when it occurred, or from when it
-- arrived where that was earlier or the other is not known.
SELECT
    tenant_id,
    trajectory_id,
    session_id,
    end_user_id,
    governance.data_subjects AS data_subjects,
    governance.retention_class AS retention_class,
    min(least(occurred_at, arrived_at)) AS occurred_at
FROM events
WHERE {named} AND ({reach})
GROUP BY ALL
