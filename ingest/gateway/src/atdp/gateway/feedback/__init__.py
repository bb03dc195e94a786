"""Feedback of people: over HTTP with a key, and by rating links on a small page."""
