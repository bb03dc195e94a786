"""The register: the log of what people decide about data."""
