"""Export: governed trajectories as files for other programs."""
