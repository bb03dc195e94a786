"""Rows of `generations.sql` as records, with whole prompts.

A prompt may be written as a reference to an earlier generation (`atdp.schemas.WholePrompts`). Where
the reference cannot be followed, the record has no prompt ids, and `broken_prefix` says why.
Numbers that are not what a reader takes them for are left out as well.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from atdp.lakehouse.admission import CONTEXT_CHANGED, EXACT, SPLICED
from atdp.lakehouse.sampling_effects import sampling_altered_by
from atdp.lakehouse.trajectory_records import GenerationRecord
from atdp.schemas import Generation, TokenSplice, WholePrompt, WholePrompts

Row: TypeAlias = Mapping[str, Any]
"""A row of `generations.sql`."""

_COMPUTED = {"sampling_altered_by", "context_intact", "broken_prefix", "stale_from"}
_COLUMNS = tuple(each.name for each in fields(GenerationRecord) if each.name not in _COMPUTED)


def generation_record(row: Row, prompts: WholePrompts, *, context_intact: bool) -> GenerationRecord:
    """Return the record of the next generation of a trajectory, in the order of the log.

    `prompts` are those of the trajectory's generations before it.
    """
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS}
    output = _ids(row, "output_token_ids")
    prompt = prompts.add(
        row["event_id"],
        Generation(
            prompt_token_ids=_ids(row, "prompt_token_ids"),
            prompt_prefix_event_id=row["prompt_prefix_event_id"],
            prompt_prefix_tokens=row["prompt_prefix_tokens"],
            output_token_ids=output,
            token_splices=tuple(TokenSplice(**each) for each in row["token_splices"] or ()),
        ),
    )
    if prompt.replaced and values["token_fidelity"] == EXACT:
        values["token_fidelity"] = CONTEXT_CHANGED
    values["stale_from"] = _stale_from(row, prompt)
    values["prompt_token_ids"] = prompt.token_ids or ()
    values["broken_prefix"] = prompt.broken
    values["output_token_ids"] = output or ()
    values["output_logprobs"] = (
        tuple(row["output_logprobs"] or ()) if _is_behaviour_logprob(row) else ()
    )
    values["loss_mask"] = _ids(row, "loss_mask")
    values["policy_versions"] = tuple(
        (span["version"], span["start"], span["end"]) for span in row["policy_versions"] or ()
    )
    penalties = {name: row[name] for name in ("frequency_penalty", "presence_penalty")}
    values["sampling_altered_by"] = sampling_altered_by(penalties, row["ext_json"])
    values["training_eligible"] = row["training_eligible"] is True
    values["policy_id"] = row["policy_id"] or ""
    return GenerationRecord(**values, context_intact=context_intact)


def _stale_from(row: Row, prompt: WholePrompt) -> int | None:
    """Return the first output token that follows a replaced token; None where there is none."""
    if row["token_fidelity"] == EXACT and not prompt.replaced:
        return None
    if row["token_fidelity"] != SPLICED or prompt.token_ids is None or prompt.replaced:
        return 0
    # Nothing before the output was replaced, so the splices count from the start of the own ids.
    own = len(row["prompt_token_ids"] or ())
    return min((each["start"] - own for each in row["token_splices"] or ()), default=0)


def _ids(row: Row, name: str) -> tuple[int, ...] | None:
    values = row[name]
    return None if values is None else tuple(values)


def _is_behaviour_logprob(row: Row) -> bool:
    """Return whether log-probabilities are stated to be those of the sampling."""
    encoding = row["logprob_encoding"]
    if encoding == "ln_at_temperature_1":
        return bool(row["temperature"] == 1)
    return encoding is None or encoding == "ln_at_sampling_temperature"
