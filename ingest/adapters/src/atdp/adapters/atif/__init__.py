"""ATIF, the Agent Trajectory Interchange Format (Harbor, NeMo): documents become events and back.

`docs/reference/mappings/atif.md` has the table of fields.
"""
