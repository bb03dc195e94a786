"""Previews: a draft policy is run on samples beside the active one, and nothing is written."""
