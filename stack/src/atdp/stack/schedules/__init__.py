"""Evaluations that run on a schedule: definitions, clock and triggers, durable runs."""
