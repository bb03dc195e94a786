"""Home, API keys, Kafka settings, service frame and durable files: what every process of the platform stands on."""
