"""The Kafka stage around the pure core: consume, govern, produce, in one transaction."""
