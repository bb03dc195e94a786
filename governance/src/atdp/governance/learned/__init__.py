"""Learned values: what a trajectory itself tells about people is found everywhere else in it."""
