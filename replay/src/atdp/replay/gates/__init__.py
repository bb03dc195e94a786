"""Gates over measured runs: candidate and baseline have done the same tasks.

Nothing is predicted here. The trajectories of both are in the lake; each metric is judged for
each tenant from the tenant's own trajectories alone.
"""
