"""Evaluation: how much of labelled text a policy finds, and plain Presidio beside it."""
