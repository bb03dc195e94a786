"""Keys are read as words: a rule applies to every spelling of a name, and to no other key."""

import json
from typing import Any

import pytest

from atdp.governance.detect.key_names import name_words
from atdp.governance.policy import CompiledPolicy
from atdp.governance.walk.string_governor import StringGovernor

NAMED = {
    "SECRET": "db_password DB_PASSWORD userPassword aws_secret_access_key openai_api_key "
    "OPENAI_API_KEY new_password password_confirm passwordHash password2 dbpassword github_token "
    "ssh_key sshPrivateKey client-secret x-api-key X-Api-Key Set-Cookie proxy_authorization "
    "api_keys user.password APIKey spring.datasource.password MYSQL_ROOT_PASSWORD secretKeyBase "
    "stripeSecretKey HF_TOKEN slackBotToken aws_access_key_2 credentials_json oldPassword",
    "PHONE_NUMBER": "phone2 homePhone home_phone phone_work Phone-Number workPhoneNumber mobile "
    "contactPhone1 phones",
    "EMAIL_ADDRESS": "email eMail E-MAIL customerEmail email_2 emails billing.email old_email",
    "STREET_ADDRESS": "address_line_2 billingAddress addressLine1 homeStreet addresses",
    "POSTAL_CODE": "shippingZip zipCode ZIP_CODE billing-postal-code",
    "PERSON": "firstName customer_last_name patientName",
    "IP_ADDRESS": "clientIP serverIp IPv4",
    "CREDIT_CARD": "cardNumber credit-card",
}
UNNAMED = (
    "password_policy passwordLength token_type token_count total_tokens max_tokens prompt_tokens "
    "next_page_token nextPageToken eos_token compass passport_photo_count secretary key "
    "primary_key keyboard public_key email_sent_count emailTemplate phonetic microphone zipper "
    "ip_version capacity addressed memory_address state country name id order_id item_id "
    "last_login description table_cell secret_name password_required mailbox tipping pinned value"
)


@pytest.mark.parametrize(
    ("entity", "key"), [(entity, key) for entity, keys in NAMED.items() for key in keys.split()]
)
def test_a_key_has_the_entity_of_its_words(
    default_policy: CompiledPolicy, entity: str, key: str
) -> None:
    assert default_policy.keys.entity_of(key) == entity


@pytest.mark.parametrize("key", [*UNNAMED.split(), "", "x" * 300, "password " * 20])
def test_other_keys_have_no_entity(default_policy: CompiledPolicy, key: str) -> None:
    assert default_policy.keys.entity_of(key) is None


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("userPassword2", ("user", "password", "2")),
        ("APIKey", ("api", "key")),
        ("clientIP", ("client", "ip")),
        ("ÜberName", ("über", "name")),
        ("x-api.key_ID", ("x", "api", "key", "id")),
        ("住所", ("住所",)),
        ("--", ()),
    ],
)
def test_words_of_keys(key: str, words: tuple[str, ...]) -> None:
    assert name_words(key) == words


SECRET = "hunter2hunter2x"


@pytest.mark.parametrize(
    "value",
    [
        {"name": "DB_PASSWORD", "value": SECRET},
        {"value": SECRET, "name": "DB_PASSWORD"},
        {"Key": "db-password", "Value": SECRET},
        {"header": "X-Api-Key", "values": [SECRET, "x"]},
        {"env": [{"name": "HOME", "value": "/root"}, {"name": "API_KEY", "value": SECRET}]},
        {"password": {"value": SECRET}},
        {"passwords": [{"value": SECRET, "of": "db"}]},
        {"cookies": {"anything": SECRET}},
        {"headers": [["Accept", "*/*"], ["X-Api-Key", SECRET]]},
        {"db": [[["password", SECRET]]]},
    ],
)
def test_a_value_falls_under_the_name_that_its_object_states(
    strings: StringGovernor, value: Any
) -> None:
    governed = strings.text(json.dumps(value), "t").text or ""
    assert SECRET not in governed
    assert json.loads(governed).keys() == value.keys() if isinstance(value, dict) else True


@pytest.mark.parametrize(
    "value",
    [
        {"name": "find_user_id_by_email", "content": "no such user", "role": "tool"},
        {"type": "object", "properties": {"password": {"type": "string", "description": "yours"}}},
        {"type": "token", "value": "the"},
        {"required": ["email", "password"]},
        {"name": "temperature", "value": "hot"},
        {"cookies": {"type": "object", "title": "Cookies"}},
        {"edges": [["a", "b"], ["c", "d"]]},
    ],
)
def test_other_objects_are_left_alone(strings: StringGovernor, value: Any) -> None:
    text = json.dumps(value)
    assert strings.text(text, "t").text == text
