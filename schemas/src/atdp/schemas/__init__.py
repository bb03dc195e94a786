"""The contract of the platform: Avro schemas, event values, codec, record headers, topics.

Everything else depends on this distribution, and it depends on fastavro alone.
"""

from atdp.schemas.codec import (
    HEADER_BYTES,
    Schema,
    SchemaName,
    decode,
    decode_record,
    encode,
    encode_plainly,
    encode_record,
    event_from_json,
    event_to_json,
    event_to_record,
    newest,
    record_to_event,
    schema_of,
    schemas,
)
from atdp.schemas.context import context_hash, contributed_messages, delta, extend, fold_context
from atdp.schemas.errors import InvalidRecord, SchemaError, UnknownSchema
from atdp.schemas.headers import KEY_ID, REDELIVERY, SIGNATURE, SigningKey, header, headers, verify
from atdp.schemas.ids import deterministic_event_id, new_event_id
from atdp.schemas.topics import Topic, TopicRole, topic, topics
from atdp.schemas.values import (
    KIND_OF_BODY,
    Action,
    ActionType,
    Agent,
    Annotation,
    Approval,
    Body,
    CodeEdit,
    ConsentState,
    Cost,
    EndStatus,
    Error,
    Event,
    EventId,
    Feedback,
    Finding,
    Gap,
    Generation,
    Governance,
    Handoff,
    InternalState,
    Kind,
    MemoryOp,
    Message,
    Observation,
    Outcome,
    OutcomeResult,
    Part,
    PartType,
    ReplayClass,
    Reward,
    Sampling,
    SideEffect,
    Source,
    Status,
    TargetKind,
    TenantId,
    TokenFidelity,
    ToolCall,
    TrajectoryEnded,
    TrajectoryId,
    TrajectoryStarted,
    Usage,
    UserDecision,
    Versions,
    VersionSpan,
    record_key,
)

__all__ = [
    "HEADER_BYTES", "KEY_ID", "KIND_OF_BODY", "REDELIVERY", "SIGNATURE",
    "Action", "ActionType", "Agent", "Annotation", "Approval", "Body", "CodeEdit", "ConsentState", "Cost", "EndStatus", "Error", "Event",
    "EventId", "Feedback", "Finding", "Gap", "Generation", "Governance", "Handoff", "InternalState", "InvalidRecord", "Kind", "MemoryOp",
    "Message", "Observation", "Outcome", "OutcomeResult", "Part", "PartType", "ReplayClass", "Reward", "Sampling", "Schema", "SchemaError",
    "SchemaName", "SideEffect", "SigningKey", "Source", "Status", "TargetKind", "TenantId", "TokenFidelity", "ToolCall", "Topic", "TopicRole",
    "TrajectoryEnded", "TrajectoryId", "TrajectoryStarted", "UnknownSchema", "Usage", "UserDecision", "VersionSpan", "Versions",
    "context_hash", "contributed_messages", "decode", "decode_record", "delta", "deterministic_event_id", "encode", "encode_plainly",
    "encode_record",

    "event_from_json", "event_to_json", "event_to_record", "extend", "fold_context", "header", "headers", "new_event_id", "newest",
    "record_key", "record_to_event", "schema_of", "schemas", "topic", "topics", "verify",
]  # fmt: skip
