"""Redaction: what is put in the place of a finding."""
