"""Evaluations as events and rows: the outbox, the table `evaluations`, the trend of a schedule."""

from atdp.stack.evaluations.publication import (
    publish_evaluation as publish_evaluation,
    publish_pending as publish_pending,
)
