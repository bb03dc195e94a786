"""Redaction: the text that replaces a detected value."""
