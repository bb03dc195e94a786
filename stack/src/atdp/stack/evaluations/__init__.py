"""Evaluations as events and rows: the outbox, the table `evaluations`, the trend of a schedule."""
