"""The governance stage: the transactional loop from the raw topic to the governed ones."""
