"""The senders of records: to Kafka, to the HTTP gateway, or to a list for tests."""
