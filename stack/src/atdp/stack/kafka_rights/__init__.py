"""Rights at a Kafka cluster: the wanted ones, and those that are set."""
