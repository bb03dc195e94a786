"""The rules of sequences: what the events of a trajectory keep together, as data.

The rules of `atdp.schemas.rule_catalogue` look at one event alone; a door refuses an event that
breaks one. The rules here need the other events of the trajectory. No door can apply them, because
events arrive late, again and from several producers. Readers of the lake apply the ones about the
context and the prompts; the conformance suite applies all of them (`atdp.schemas.sequence_check`).
Examples of kept and broken rules are the vectors in `conformance/sequences.jsonl`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceRule:
    """One rule; its id never changes."""

    id: str
    sentence: str


SEQUENCE_RULES: tuple[SequenceRule, ...] = (
    SequenceRule(
        id="Sequence.event_id",
        sentence="An event id belongs to one event of the tenant; a copy of the event is equal.",
    ),
    SequenceRule(
        id="Sequence.seq_once",
        sentence="A producer uses each number of an attempt for one event.",
    ),
    SequenceRule(
        id="Sequence.seq_order",
        sentence="The events of a producer come in the order of their numbers.",
    ),
    SequenceRule(
        id="Sequence.seq_gapless",
        sentence=(
            "The numbers of a producer begin at 0 and have no holes, except for those that a gap "
            "event of the producer names."
        ),
    ),
    SequenceRule(
        id="Sequence.start",
        sentence="An attempt starts once, and its producer records nothing before the start.",
    ),
    SequenceRule(
        id="Sequence.end",
        sentence=(
            "After the end of an attempt, its producer records only rewards, feedback, "
            "annotations and gaps."
        ),
    ),
    SequenceRule(
        id="Sequence.context_base",
        sentence="An observation keeps no more messages than the context has.",
    ),
    SequenceRule(
        id="Sequence.context_hash",
        sentence="The context hash of an observation is that of the folded context.",
    ),
    SequenceRule(
        id="Sequence.context_after_gap",
        sentence=(
            "After missing events, the next observation sends the context in full, "
            "or proves by its hash that no message is missing."
        ),
    ),
    SequenceRule(
        id="Sequence.tools",
        sentence="Tools that an observation names by hash were shown by it or earlier.",
    ),
    SequenceRule(
        id="Sequence.tools_hash",
        sentence=(
            "The tools hash of an observation is the SHA-256 of the canonical JSON of the tools "
            "that it shows."
        ),
    ),
    SequenceRule(
        id="Sequence.prompt_prefix",
        sentence=(
            "The prefix of a prompt is taken from an earlier generation of the attempt, and is not "
            "longer than the prompt and output of it."
        ),
    ),
    SequenceRule(
        id="Sequence.target",
        sentence="The target event of a reward, a feedback or an annotation is in the trajectory.",
    ),
)
