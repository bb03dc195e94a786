"""Our way of running recognizers finds what Presidio finds: the same spans, the same scores, on ordinary and on hostile text."""

import functools
import logging
import sys
from collections.abc import Sequence
from typing import Any

import phonenumbers
import pytest
from hypothesis import given, settings, strategies as st

from atdp.governance.budget import spending
from atdp.governance.detect.finding import Detector, Finding
from atdp.governance.detect.phone_prefilter import may_be_dialled
from atdp.governance.detect.phones import PhoneDetector
from atdp.governance.detect.prefilters import GATES
from atdp.governance.detect.presidio import PatternDetector, pattern_detectors, recognizer_classes
from atdp.governance.detect.secrets import RULES, SecretDetector
from atdp.governance.errors import DetectorError, PolicyError, Refusal

CORPUS = [
    "write to bob.smith+x@corp.co.uk, or <a@b.io>; not to a@b or @handle",
    "card 4111 1111 1111 1111, 4111-1111-1111-1112, 5500005555555559, 378282246310005",
    "DE89370400440532013000 and DE89 3704 0044 0532 0130 00 2 days; GB82WEST12345698765432",
    "192.168.0.1 10.0.0.300 ::1 2001:db8::8a2e:370:7334 ::ffff:10.0.0.1 fe80::1%eth0 a::b c:: 1:2:3:4:5:6:7:8",
    "ssn 536-90-4399 536904399 536 90 4399 000-00-0000 12345-6789 123-456789",
    "itin 912-70-1234 912701234; passport A12345678 123456789; account 12345678901",
    "licence H12345678 A1234567 12345678; dea AB1234563; nino AB 12 34 56 C; nhs 943 476 5919",
    "mac 00:1B:44:11:3A:B7 00-1b-44-11-3a-b7 001b.4411.3ab7",
    "btc 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
    "call +44 20 7946 0958, (415) 555-2671, 415.555.2671, 4155552671, 0207 946 0958 x12, ＋14155552671",
    "item 9690244451 costs $1234.50; 2024-08-06T10:00:00Z; v1.2.3.4; 100%",
    '{"a": "b", "n": [1, 2.5, 3e10], "time": "10:20:30"}',
    "... " * 50 + "." * 500 + "a@" * 50,
    "\u0130stanbul \u017f\u212a \uff21\uff20\uff22.com \u0664\u0661\u0665 555 2671 zero\u200bwidth@x.org",
    "",
]
ALPHABET = "0123456789 .-:/@()+abfx,AZ_\n\t%[]é\u0660\u2010＋１"


@functools.cache
def pairs() -> Sequence[tuple[Any, PatternDetector, PatternDetector]]:
    """(Presidio's recognizer, ours without a gate, ours) for every entity that has a gate."""
    return [
        (make(), plain, gated)
        for entity in GATES
        for make, plain, gated in zip(
            recognizer_classes()[entity],
            pattern_detectors(entity, gated=False),
            pattern_detectors(entity),
            strict=True,
        )
    ]


def presidio_says(recognizer: Any, text: str) -> list[tuple[int, int, float]]:
    return sorted(
        (one.start, one.end, one.score)
        for one in recognizer.analyze(text, recognizer.supported_entities)
    )


def spans(found: Sequence[Finding]) -> list[tuple[int, int, float]]:
    return sorted((one.start, one.end, one.score) for one in found)


@pytest.mark.parametrize("text", CORPUS)
def test_findings_are_those_of_presidio_with_and_without_gates(text: str) -> None:
    for recognizer, plain, gated in pairs():
        expected = presidio_says(recognizer, text)
        assert spans(plain.scan(text)) == expected, type(recognizer).__name__
        assert spans(gated.scan(text)) == expected, type(recognizer).__name__


def test_the_corpus_exercises_every_gated_recognizer() -> None:
    silent = [
        type(recognizer).__name__
        for recognizer, _, gated in pairs()
        if not any(gated.scan(text) for text in CORPUS)
    ]
    assert silent == []


@settings(max_examples=150)
@given(
    st.text(alphabet=ALPHABET, max_size=60)
    | st.lists(st.sampled_from(CORPUS), max_size=3).map(" ".join)
)
def test_gates_never_hide_a_finding(text: str) -> None:
    for recognizer, _, gated in pairs():
        assert spans(gated.scan(text)) == presidio_says(recognizer, text), type(recognizer).__name__


@settings(max_examples=150)
@given(st.text(alphabet=ALPHABET, max_size=60))
def test_the_phone_gate_never_hides_a_number(text: str) -> None:
    for regions in (["US", "GB"], ["DE"], ["FR", "IL"]):
        assert spans(PhoneDetector(regions).scan(text)) == spans(
            PhoneDetector(regions, gated=False).scan(text)
        )


@pytest.mark.parametrize("text", CORPUS)
def test_phones_are_those_of_presidio(text: str) -> None:
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    recognizer = PhoneRecognizer(supported_regions=["US", "GB"])
    assert spans(PhoneDetector(["US", "GB"]).scan(text)) == presidio_says(recognizer, text)


def test_a_gate_that_is_too_strict_would_be_seen() -> None:
    """Guard of the guards: the comparison fails for a gate that asks too much."""
    (make,) = recognizer_classes()["EMAIL_ADDRESS"]
    strict = PatternDetector(make(), lambda text: text.endswith("@"))
    assert spans(strict.scan(CORPUS[0])) != presidio_says(make(), CORPUS[0])


def test_a_pattern_that_runs_out_of_time_is_an_error_not_a_skip() -> None:
    (make,) = recognizer_classes()["CREDIT_CARD"]

    class Slow:
        def finditer(self, text: str, timeout: float) -> object:
            raise TimeoutError

    detector = PatternDetector(make(), None)
    detector._patterns = [(Slow(), 0.3, "slow")]
    with pytest.raises(DetectorError, match="CREDIT_CARD"):
        detector.scan("4111 1111 1111 1111")


def test_presidio_is_loaded_without_network_lists_and_without_a_voice() -> None:
    from presidio_analyzer.predefined_recognizers.generic import email_recognizer

    recognizer_classes()
    assert logging.getLogger("presidio-analyzer").disabled
    assert email_recognizer.tldextract.extract("a@b.co.uk").fqdn == "b.co.uk"
    assert email_recognizer.tldextract is not sys.modules["tldextract"]


def test_an_unknown_phone_region_is_refused() -> None:
    with pytest.raises(PolicyError, match="UK"):
        PhoneDetector(["UK"])


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
    "told-password": "my password is hunter2!",
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
    gated: Detector = SecretDetector(5.0)
    assert list(gated.scan(text)) == list(SecretDetector(5.0, gated=False).scan(text))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["US", "GB", "DE", "FR", "IT", "BR", "AR", "IN", "GG", "JP", "NZ", "BS"]),
    st.lists(
        st.from_regex(r"(00|011|0|1|44|49|39|55|54|9)?[0-9]{1,11}", fullmatch=True)
        | st.from_regex(r"[0-9]{1,5}", fullmatch=True),
        max_size=8,
    ),
    st.sampled_from([" ", "-", ".", " - ", ") (", "/", "\n", "  ", ", "]),
)
def test_what_is_not_parsed_because_it_cannot_be_dialled_is_no_number(
    region: str, numbers: list[str], between: str
) -> None:
    text = between.join(numbers)
    assert spans(PhoneDetector([region]).scan(text)) == spans(
        PhoneDetector([region], gated=False).scan(text)
    )


@pytest.mark.parametrize(
    ("region", "local"), [("NF", "54459"), ("DM", "5028263"), ("JE", "028907")]
)
def test_a_local_number_that_parsing_completes_is_found(region: str, local: str) -> None:
    assert [one.end for one in PhoneDetector([region]).scan(local)] == [len(local)]


def test_every_regions_own_examples_can_be_dialled() -> None:
    for region in phonenumbers.SUPPORTED_REGIONS:
        for kind in range(11):
            example = phonenumbers.example_number_for_type(region, kind)
            if example is None:
                continue
            for style in (
                phonenumbers.PhoneNumberFormat.NATIONAL,
                phonenumbers.PhoneNumberFormat.INTERNATIONAL,
            ):
                text = phonenumbers.format_number(example, style).lstrip("+")
                try:
                    valid = phonenumbers.is_valid_number(phonenumbers.parse(text, region))
                except phonenumbers.NumberParseException:
                    continue
                assert may_be_dialled(region)(text) or not valid, (region, text)


def test_a_table_of_numbers_is_searched_without_parsing_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    matcher: Any = phonenumbers.phonenumbermatcher
    whole = matcher.parse

    def counted(candidate: str, *arguments: Any, **named: Any) -> Any:
        parsed.append(candidate)
        return whole(candidate, *arguments, **named)

    monkeypatch.setattr(matcher, "parse", counted)
    table = "\n".join(
        " ".join(str((row * 37 + cell * 101) % 1000) for cell in range(12)) for row in range(50)
    )
    PhoneDetector(["US", "GB"]).scan(table)
    behind_the_gate = len(parsed)
    PhoneDetector(["US", "GB"], gated=False).scan(table)
    assert behind_the_gate < (len(parsed) - behind_the_gate) / 20


def test_a_record_that_takes_too_long_is_refused_while_it_is_searched() -> None:
    text = "415 555 2671 " * 5_000
    with spending(0.05), pytest.raises(Refusal, match="too_costly"):
        PhoneDetector(["US", "GB"]).scan(text)
    assert PhoneDetector(["US", "GB"]).scan("415 555 2671")
