"""Tool arguments stay valid against their schema; a chat request is pseudonymised as a whole."""

import json
from typing import Any

import jsonschema
import pytest

from atdp.governance.request_pseudonyms import pseudonymised_request
from atdp.governance.walk.string_governor import StringGovernor

from .governors import KEY

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["email", "phone", "zip", "card_number", "ssn", "date_of_birth", "ip"],
    "properties": {
        "email": {"type": "string", "format": "email"},
        "phone": {"type": "string", "pattern": r"^\+?[0-9() -]{7,20}$"},
        "zip": {"type": "integer", "minimum": 10_000, "maximum": 99_999},
        "postal_code": {"type": "string", "pattern": "^[0-9]{5}(-[0-9]{4})?$"},
        "card_number": {"type": "string", "pattern": "^[3-6][0-9]{12,18}$"},
        "ssn": {"type": "string", "pattern": "^[0-9]{3}-[0-9]{2}-[0-9]{4}$"},
        "iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"},
        "date_of_birth": {"type": "string", "format": "date"},
        "ip": {"type": "string", "format": "ipv4"},
        "first_name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        "city": {"type": "string", "pattern": "^[A-Za-z .'-]+$"},
        "user_id": {"type": "string", "pattern": "^[a-z]+_[a-z]+_[0-9]{4}$"},
        "payment_method_id": {"type": "string", "pattern": "^(credit_card|paypal)_[0-9]{7}$"},
    },
}
ARGUMENTS: dict[str, Any] = {
    "email": "mia.li3668@example.org",
    "phone": "+1 212-456-7890",
    "zip": 19122,
    "postal_code": "19122-1234",
    "card_number": "4242424242424242",
    "ssn": "536-90-4399",
    "iban": "DE89370400440532013000",
    "date_of_birth": "1988-03-14",
    "ip": "10.1.2.3",
    "first_name": "Mia",
    "city": "New York",
    "user_id": "mia_li_3668",
    "payment_method_id": "credit_card_4421486",
}


def test_arguments_stay_valid_against_the_schema_of_their_tool(strings: StringGovernor) -> None:
    check = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
    check.validate(ARGUMENTS)
    governed = json.loads(strings.text(json.dumps(ARGUMENTS), "t").text or "")
    check.validate(governed)
    for name, value in ARGUMENTS.items():
        assert governed[name] != value
        assert type(governed[name]) is type(value)
    with pytest.raises(jsonschema.ValidationError):
        check.validate({**governed, "email": "<EMAIL_ADDRESS>", "ip": "<IP_ADDRESS>"})


def test_a_chat_request_is_pseudonymised_and_its_protocol_stays(strings: StringGovernor) -> None:
    request = {
        "model": "m",
        "temperature": 0.5,
        "metadata": {"id": "mia.li3668@example.org", "type": "mia.li3668@example.org"},
        "messages": [
            {"role": "user", "content": "I am at mia.li3668@example.org"},
            {"role": "user", "content": [{"type": "text", "text": "zip: 19122"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "find_user", "arguments": '{"zip": "19122"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"zip": "19122"}'},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "find_user", "parameters": {"type": "object"}},
            }
        ],
    }
    before = json.dumps(request)
    governed = pseudonymised_request(strings, request, "t")
    expected = before.replace(
        "mia.li3668@example.org", KEY.surrogate("EMAIL_ADDRESS", "mia.li3668@example.org")
    ).replace("19122", KEY.surrogate("POSTAL_CODE", "19122", scope="t"))
    assert json.dumps(governed) == expected
    assert json.dumps(request) == before
