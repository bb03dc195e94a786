-- with_stamps: the trajectories of a tenant with an event that has one of some stamps: {stamps} is a
-- condition over `events`. {named} limits the trajectories that are looked at; {tenant} is a string
-- literal.
SELECT DISTINCT trajectory_id
FROM events
WHERE {named} AND tenant_id = {tenant} AND ({stamps})
