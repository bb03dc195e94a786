"""Replay of recordings: the candidate's model runs live, and its tools answer from a recording."""
