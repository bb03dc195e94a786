"""Evaluators: judges and checks that give verdicts on finished trajectories."""
