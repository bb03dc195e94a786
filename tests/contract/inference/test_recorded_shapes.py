"""The engine answers recorded requests in the shape that SGLang 0.5.23 answered them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from atdp.trainer.testing import EngineUnderTest

RECORDED = Path(__file__).parent / "recorded"
NULLABLE = {"cached_tokens_details", "tool_call_parser", "reasoning_parser"}
"""Keys that are null or not, depending on the state of the server."""
ONLY_SOMETIMES = {"decode_throughput"}
"""Present when more than one token was generated in more than one step."""
ADDITIONS = {"tokenizer_hash", "template_hash", "weights_sha256", "embedding"}
"""Keys that one side adds to SGLang's own."""
ONLY_SGLANG = "update_weight_version"

CASES = sorted(
    path.stem
    for path in RECORDED.glob("*.json")
    if not path.stem.startswith(("generate_during", "generate_stream"))
)


def recorded(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return loaded


def fitted_body(engine: EngineUnderTest, name: str, body: Any) -> Any:
    """Return the recorded body with the values that the engine under test needs."""
    if not isinstance(body, dict):
        return body
    if body.get("model_path") == "models/tiny_v1":
        body |= {"model_path": str(engine.second), "weight_version": "second"}
    if body.get("input_ids") == "[10] * 3000":
        body["input_ids"] = [10] * 3000
    if name == "chat" or (name.startswith("generate_") and name != "generate_stop"):
        # The recorded model never ended by itself.
        body.get("sampling_params", body)["ignore_eos"] = True
    return body


@pytest.mark.parametrize("name", CASES)
def test_an_answer_has_the_recorded_status_and_shape(engine: EngineUnderTest, name: str) -> None:
    if name == ONLY_SGLANG and engine.kind != "sglang":
        pytest.skip("the embedded worker serves versions under their own names only")
    case = recorded(name)
    request, response = case["request"], case["response"]
    body = fitted_body(engine, name, request["json"])
    answer = engine.http.request(request["method"], request["path"], json=body)
    assert answer.status_code == response["status"], answer.text
    if isinstance(response["body"], (dict, list)):
        assert difference(answer.json(), response["body"], name) is None
    if name.startswith("err_"):
        assert answer.json() == response["body"]
    if name.startswith("pause"):
        engine.post("/continue_generation")


def difference(ours: object, theirs: object, where: str) -> str | None:
    """Return the first difference in keys, types or the layout of lists; `None` without one."""
    if where.rsplit(".", 1)[-1] in NULLABLE and (theirs is None or ours is None):
        return None
    if isinstance(theirs, dict):
        return object_difference(ours, theirs, where)
    if isinstance(theirs, list):
        return list_difference(ours, theirs, where)
    if theirs is None or ours is None:
        same = theirs is ours
    elif isinstance(theirs, int | float) and isinstance(ours, int | float):
        same = isinstance(theirs, bool) == isinstance(ours, bool)
    else:
        same = type(ours) is type(theirs)
    return None if same else f"{where}: {ours!r} where {theirs!r} was recorded"


def object_difference(ours: object, theirs: dict[str, Any], where: str) -> str | None:
    if not isinstance(ours, dict):
        return f"{where}: {type(ours).__name__} instead of an object"
    missing = theirs.keys() - ours.keys() - ONLY_SOMETIMES - ADDITIONS
    extra = ours.keys() - theirs.keys() - ONLY_SOMETIMES - ADDITIONS
    if missing or extra:
        return f"{where}: missing {sorted(missing)}, not recorded {sorted(extra)}"
    return first_of(
        difference(ours[key], theirs[key], f"{where}.{key}") for key in theirs.keys() & ours.keys()
    )


def list_difference(ours: object, theirs: list[Any], where: str) -> str | None:
    if not isinstance(ours, list):
        return f"{where}: {type(ours).__name__} instead of a list"
    if theirs and ours and all(isinstance(item, type(theirs[0])) for item in theirs):
        return difference(ours[-1], theirs[-1], f"{where}[]")
    if len(theirs) == len(ours):
        return first_of(difference(a, b, f"{where}[]") for a, b in zip(ours, theirs, strict=True))
    return None


def first_of(differences: Iterable[str | None]) -> str | None:
    return next((text for text in differences if text), None)


def test_the_shape_check_sees_a_missing_key_an_added_key_and_another_layout() -> None:
    entry = recorded("generate_ids_logprob")["response"]["body"]
    less = {
        **entry,
        "meta_info": {k: v for k, v in entry["meta_info"].items() if k != "weight_versions"},
    }
    flat = {**entry, "meta_info": {**entry["meta_info"], "output_token_logprobs": [1.0]}}
    assert "weight_versions" in str(difference(less, entry, "x"))
    assert "surprise" in str(difference({**entry, "surprise": 1}, entry, "x"))
    assert "output_token_logprobs" in str(difference(flat, entry, "x"))
    assert difference(entry, entry, "x") is None
