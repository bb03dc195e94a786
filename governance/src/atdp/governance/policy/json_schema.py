"""The JSON Schema of policy files, with which editors complete and check them."""

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from atdp.governance.policy.document import DOCUMENT_KINDS


def policy_schema() -> dict[str, Any]:
    """Return the schema of all kinds of policy files, of JSON Schema 2020-12."""
    schemas, definitions = models_json_schema(
        [(model, "validation") for model in DOCUMENT_KINDS.values()],
        title="ATDP policy file",
        ref_template="#/$defs/{model}",
    )
    for definition in definitions["$defs"].values():
        for field in definition.get("properties", {}).values():
            if "patternProperties" in field:
                # Names of another form are errors, as they are for pydantic.
                field["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **definitions,
        "oneOf": [schemas[model, "validation"] for model in DOCUMENT_KINDS.values()],
    }


def policy_schema_text() -> str:
    """Return the schema as a file."""
    return json.dumps(policy_schema(), indent=1, ensure_ascii=False) + "\n"
