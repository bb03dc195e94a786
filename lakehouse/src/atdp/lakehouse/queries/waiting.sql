-- waiting: the number of trajectories that the filter selects and that wait to be governed again.
SELECT count(*)
FROM trajectories
WHERE NOT settled AND (
{where}
)
