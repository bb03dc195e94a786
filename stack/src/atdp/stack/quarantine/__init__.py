"""Quarantine as stewards use it: the list from the lake, inspection, and orders about records."""
