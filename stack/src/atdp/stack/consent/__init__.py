"""Consent: decisions of stewards, and the weights that have learned from what is withdrawn."""
