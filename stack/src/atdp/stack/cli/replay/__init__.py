"""`atdp replay …`: evaluations of candidates on logged trajectories."""
