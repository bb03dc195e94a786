"""OTLP traces and logs as JSON, in the vocabularies of OpenTelemetry GenAI and of OpenInference.

`docs/reference/mappings/otel_genai.md` and `openinference.md` have the tables of attributes.
"""
