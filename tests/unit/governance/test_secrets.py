"""Credentials are detected wherever they are, and ordinary text holds none."""

import pytest
from hypothesis import given, settings, strategies as st

from atdp.governance.detect.detector import Detector
from atdp.governance.detect.secrets import RULES, SecretDetector

SECRETS = {
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
    "aws-access-key": "AKIAIOSFODNN7EXAMPLE",
    "github": "ghp_" + "a1B2" * 9,
    "gitlab": "glpat-" + "a1B2c" * 4,
    "slack": "xoxb-123456789012-abcdef",
    "slack-webhook": "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXX",
    "stripe": "sk_live_" + "a1B2" * 6,
    "model-provider": "sk-ant-api03-" + "a1B2" * 10,
    "google-api-key": "AIza" + "a1B2c" * 7,
    "google-oauth": "ya29." + "a1B2" * 8,
    "google-oauth-secret": "GOCSPX-" + "a1B2" * 6,
    "sendgrid": "SG." + "a1B2" * 5 + "." + "a1B2" * 10,
    "npm": "npm_" + "a1B2" * 9,
    "pypi": "pypi-" + "a1B2" * 15,
    "hugging-face": "hf_" + "a1B2" * 8 + "ab",
    "digitalocean": "dop_v1_" + "a1b2" * 16,
    "databricks": "dapi" + "a1b2" * 8,
    "shopify": "shpat_" + "a1b2" * 8,
    "square": "sq0atp-" + "a1B2" * 6,
    "mailgun": "key-" + "a1b2" * 8,
    "linear": "lin_api_" + "a1B2" * 10,
    "atdp": "atdp_" + "a1b2" * 3 + "_" + "a1B2c" * 8 + "abc",
    "json-web-token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "url-password": "postgres://app:s3cr3tpw@db.internal:5432/x",
    "authorization": "Authorization: Bearer abcdef0123456789abcdef",
    "assignment": 'DB_PASSWORD="correct horse battery"',
    "stated-password": "my password is hunter2!",
}
HARMLESS = [
    "the password is required and the token expired",
    "next_page_token: see below; max_tokens=512; pass the salt",
    "skill-based routing, task-oriented, sky_blue_shirt",
    "https://example.com/a:b/c@2x.png and http://host:8080/path",
    "password=<SECRET> and api_key=<SECRET_1a2b3c4d5e>",
    "password=$DB_PASSWORD and token=${TOKEN} and secret=$(pass show db)",
]


def test_every_secret_rule_has_an_example() -> None:
    assert set(SECRETS) == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_wherever_it_stands(name: str) -> None:
    secret = SECRETS[name]
    detector = SecretDetector(5.0)
    for text in (secret, f"see {secret} now", f"a\n{secret}\nb"):
        assert f"secret:{name}" in {one.rule for one in detector.scan(text)}, text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=pa$$w0rd123 and", "pa$$w0rd123"),
        ("password: P@ss$word1", "P@ss$word1"),
        ("PASSWORD=$1eCr3t", "$1eCr3t"),
        ("api_key=" + "k" * 3_000, "k" * 3_000),
    ],
)
def test_a_dollar_does_not_end_a_secret(text: str, secret: str) -> None:
    assert secret in {text[one.start : one.end] for one in SecretDetector(5.0).scan(text)}


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_holds_no_secret(text: str) -> None:
    assert not SecretDetector(5.0).scan(text)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from([*SECRETS.values(), *HARMLESS, " ", "\n", "x", ":", "=", "'", '"']),
        max_size=5,
    ).map("".join)
)
def test_the_key_words_of_secret_rules_never_hide_a_secret(text: str) -> None:
    with_words: Detector = SecretDetector(5.0)
    assert list(with_words.scan(text)) == list(SecretDetector(5.0, prefiltered=False).scan(text))
