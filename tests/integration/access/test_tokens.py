import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import RSAKey
from tests.integration.access.issuer import LocalIssuer, ec_key, rsa_key, running_issuer

from atdp.access import OidcSettings, OidcVerifier
from atdp.access.oidc.issuer_keys import IssuerKeys
from atdp.runtime import HttpProblem


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with running_issuer() as running:
        yield running


def settings(issuer: LocalIssuer, **changed: Any) -> OidcSettings:
    one = {
        "issuer": issuer.url,
        "audience": "atdp",
        "tenant_claim": "org",
        "roles_claim": "groups",
        "roles": {"data-stewards": "steward", "ml": "trainer", "platform": "operator"},
        "clock_skew_s": 30,
    }
    merged = {name: value for name, value in (one | changed).items() if value is not None}
    return OidcSettings.model_validate({"issuers": [merged]})


@pytest.fixture
def verifier(issuer: LocalIssuer) -> OidcVerifier:
    return OidcVerifier(settings(issuer))


def refused(verifier: OidcVerifier, token: str) -> tuple[int, str]:
    with pytest.raises(HttpProblem) as caught:
        verifier.principal_of(token)
    return caught.value.status, caught.value.code


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@pytest.mark.parametrize("which", [0, 1], ids=["RS256", "ES256"])
def test_a_token_gives_tenant_roles_and_the_name_of_the_person(
    issuer: LocalIssuer, verifier: OidcVerifier, which: int
) -> None:
    principal = verifier.principal_of(
        issuer.token(issuer.keys[which], groups=["data-stewards", "x"])
    )
    assert (principal.tenant, principal.roles) == ("acme", ("steward",))
    assert principal.actor == f"oidc:{issuer.url}#u-1"
    assert principal.may("govern")
    assert not principal.may("emit")


def test_several_roles_add_up_and_the_operator_stands_alone(
    issuer: LocalIssuer, verifier: OidcVerifier
) -> None:
    both = verifier.principal_of(issuer.token(groups=["ml", "data-stewards"]))
    assert both.roles == ("steward", "trainer")
    assert both.may("read:train")
    operator = verifier.principal_of(issuer.token(groups="platform"))
    assert (operator.tenant, operator.roles) == ("*", ("operator",))
    assert refused(verifier, issuer.token(groups=["platform", "ml"])) == (403, "roles_conflict")


def test_an_issuer_can_be_of_one_tenant_or_name_tenants_by_other_values(
    issuer: LocalIssuer,
) -> None:
    fixed = OidcVerifier(settings(issuer, tenant_claim=None, tenant="acme"))
    assert fixed.principal_of(issuer.token(org="rival")).tenant == "acme"
    mapped = OidcVerifier(settings(issuer, tenant_claim="a.org", tenants={"4711": "acme"}))
    assert mapped.principal_of(issuer.token(a={"org": "4711"})).tenant == "acme"
    assert refused(mapped, issuer.token(a={"org": "acme"})) == (403, "tenant_unknown")


BAD: dict[str, tuple[dict[str, Any], tuple[int, str]]] = {
    "expired": ({"exp": -31, "nbf": -600, "iat": -600}, (401, "token_expired")),
    "not yet valid": ({"nbf": 120}, (401, "token_not_yet_valid")),
    "issued in the future": ({"iat": 120}, (401, "token_not_yet_valid")),
}


@pytest.mark.parametrize(("offsets", "expected"), BAD.values(), ids=BAD.keys())
def test_times_outside_of_the_skew_are_refused(
    issuer: LocalIssuer, verifier: OidcVerifier, offsets: dict[str, int], expected: tuple[int, str]
) -> None:
    now = int(time.time())
    times: dict[str, Any] = {name: now + offset for name, offset in offsets.items()}
    assert refused(verifier, issuer.token(**times)) == expected


def test_the_skew_of_clocks_is_tolerated_to_its_bound(issuer: LocalIssuer) -> None:
    clock = [datetime.now(UTC)]
    verifier = OidcVerifier(settings(issuer), now=lambda: clock[0])
    start = int(clock[0].timestamp())
    token = issuer.token(nbf=start, iat=start, exp=start + 60)
    for seconds, code in [
        (-31, "token_not_yet_valid"),
        (-29, None),
        (89, None),
        (91, "token_expired"),
    ]:
        clock[0] = datetime.fromtimestamp(start, UTC) + timedelta(seconds=seconds)
        if code is None:
            verifier.principal_of(token)
        else:
            assert refused(verifier, token) == (401, code)


WRONG: dict[str, tuple[Callable[[LocalIssuer], str], tuple[int, str]]] = {
    "audience": (lambda i: i.token(aud="other"), (401, "audience_wrong")),
    "one of several audiences": (lambda i: i.token(aud=["a", "b"]), (401, "audience_wrong")),
    "issuer": (lambda i: i.token(iss="https://other.example"), (401, "issuer_unknown")),
    "issuer with a slash": (lambda i: i.token(iss=i.url + "/"), (401, "issuer_unknown")),
    "no issuer": (lambda i: i.token(iss=None), (401, "issuer_unknown")),
    "no expiry": (lambda i: i.token(exp=None), (401, "claim_missing")),
    "expiry as text": (lambda i: i.token(exp="9999999999"), (401, "token_malformed")),
    "expiry beyond all numbers": (lambda i: i.token(exp=10**400), (401, "token_malformed")),
    "expiry NaN": (lambda i: i.token(exp=float("nan")), (401, "token_malformed")),
    "no audience": (lambda i: i.token(aud=None), (401, "claim_missing")),
    "no subject": (lambda i: i.token(sub=None), (401, "claim_missing")),
    "a subject of lines": (lambda i: i.token(sub="a\nb"), (401, "claim_missing")),
    "no tenant": (lambda i: i.token(org=None), (403, "tenant_missing")),
    "tenant of another type": (lambda i: i.token(org=["acme"]), (403, "tenant_missing")),
    "every tenant": (lambda i: i.token(org="*"), (403, "tenant_unknown")),
    "no role": (lambda i: i.token(groups=["guests"]), (403, "role_missing")),
    "roles of another type": (lambda i: i.token(groups={"ml": 1}), (403, "role_missing")),
    "a key of the same id": (
        lambda i: i.token(rsa_key("other"), header={"kid": "r1"}),
        (401, "signature_invalid"),
    ),
    "unknown key": (lambda i: i.token(rsa_key("other")), (401, "key_unknown")),
    "no key id": (lambda i: i.token(header={"kid": ""}), (401, "key_unknown")),
    "a key id of another type": (lambda i: _with_header(i, kid=7), (401, "token_malformed")),
    "another algorithm": (lambda i: _with_header(i, alg="RS512"), (401, "algorithm_denied")),
    "algorithm of another key": (
        lambda i: i.token(ec_key("e1"), header={"kid": "r1"}),
        (401, "algorithm_denied"),
    ),
    "no signature": (
        lambda i: _with_header(i, alg="none", signature=""),
        (401, "algorithm_denied"),
    ),
    "a secret of public bytes": (lambda i: _hmac(i), (401, "algorithm_denied")),
    "critical header": (lambda i: _with_header(i, crit=["exp"]), (401, "token_malformed")),
    "changed claims": (lambda i: _swapped(i), (401, "signature_invalid")),
    "no JWT": (lambda _: "a.b.c", (401, "token_malformed")),
    "too long": (lambda _: "a" * 20_000 + ".b.c", (401, "token_malformed")),
    "claims are a list": (
        lambda i: f"{i.token().split('.')[0]}.{b64(b'[]')}.AA",
        (401, "token_malformed"),
    ),
}


@pytest.mark.parametrize(("make", "expected"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_token_is_refused_with_its_reason(
    issuer: LocalIssuer,
    verifier: OidcVerifier,
    make: Callable[[LocalIssuer], str],
    expected: tuple[int, str],
) -> None:
    assert refused(verifier, make(issuer)) == expected


def test_no_message_holds_a_value_of_the_token(issuer: LocalIssuer, verifier: OidcVerifier) -> None:
    canary = "canary-7f3a"
    for token in (
        issuer.token(org=canary + "/"),
        issuer.token(groups=[canary]),
        issuer.token(aud=canary),
        issuer.token(iss=f"https://{canary}.example"),
        issuer.token(sub=canary + "\n"),
        issuer.token(rsa_key(canary)),
    ):
        with pytest.raises(HttpProblem) as caught:
            verifier.principal_of(token)
        assert canary not in str(caught.value)


def test_a_rotated_key_is_read_once_and_unknown_keys_do_not_flood_the_issuer(
    issuer: LocalIssuer,
) -> None:
    clock = [0.0]
    keys = IssuerKeys(issuer.url, monotonic=lambda: clock[0])
    assert keys.key("r1") is not None
    issuer.keys = [rsa_key("r2")]
    assert keys.key("r1") is not None  # still within the hour
    clock[0] += 31
    assert keys.key("r2") is not None
    assert keys.key("r1") is None
    asked = issuer.requests["/keys"]
    for number in range(50):
        assert keys.key(f"made-up-{number}") is None
    assert issuer.requests["/keys"] == asked == 2


def test_a_token_without_key_id_is_checked_with_the_only_key_and_with_a_newer_one(
    issuer: LocalIssuer,
) -> None:
    clock = [0.0]
    verifier = OidcVerifier(settings(issuer))
    keys = verifier._keys[issuer.url] = IssuerKeys(issuer.url, monotonic=lambda: clock[0])
    both = issuer.token(header={"kid": None})
    assert refused(verifier, both) == (401, "key_unknown")
    issuer.keys = [rsa_key("r1")]
    clock[0] += 31
    verifier.principal_of(both)
    issuer.keys = [rsa_key("r2")]
    clock[0] += 31
    verifier.principal_of(issuer.token(header={"kid": None}))
    readings = keys.readings
    for _ in range(9):
        assert refused(verifier, both) == (401, "signature_invalid")
    assert keys.readings == readings


def test_while_the_issuer_is_down_known_keys_hold_for_an_hour_and_then_nothing_is_accepted(
    issuer: LocalIssuer,
) -> None:
    clock = [0.0]
    keys = IssuerKeys(issuer.url, monotonic=lambda: clock[0])
    assert keys.key("r1") is not None
    issuer.discovery["issuer"] = "http://127.0.0.1:1"  # what is not its own document is no answer
    clock[0] = 3599
    assert keys.key("r1") is not None
    clock[0] = 3601
    for _ in range(2):
        with pytest.raises(HttpProblem) as caught:
            keys.key("r1")
        assert (caught.value.status, caught.value.code) == (503, "issuer_unavailable")
    issuer.discovery["issuer"] = issuer.url
    clock[0] += 6
    assert keys.key("r1") is not None


@pytest.mark.parametrize(
    "discovery",
    [{}, {"jwks_uri": 1}, {"jwks_uri": "http://example.com/keys"}, {"jwks_uri": "file:///etc/x"}],
)
def test_a_discovery_document_without_a_trusted_place_of_keys_gives_no_keys(
    issuer: LocalIssuer, discovery: dict[str, Any]
) -> None:
    issuer.discovery = {"issuer": issuer.url, **discovery}
    with pytest.raises(HttpProblem, match="jwks_uri"):
        IssuerKeys(issuer.url).key("r1")


def test_an_issuer_that_does_not_listen_answers_503(issuer: LocalIssuer) -> None:
    verifier = OidcVerifier(settings(issuer))
    token = issuer.token()
    issuer.stop()
    assert refused(verifier, token) == (503, "issuer_unavailable")


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_weak_keys_and_keys_for_encryption_are_not_used(issuer: LocalIssuer) -> None:
    short = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    weak = RSAKey.import_key(
        {"kty": "RSA", "kid": "weak", "n": number(short.n), "e": number(short.e)}
    )
    sealing = rsa_key("sealing")
    document = sealing.as_dict(private=False) | {"use": "enc"}
    issuer.keys = [weak, type(sealing).import_key(document)]
    keys = IssuerKeys(issuer.url)
    assert keys.key("weak") is None
    assert keys.key("sealing") is None


def _with_header(issuer: LocalIssuer, signature: str | None = None, **changed: Any) -> str:
    head, body, end = issuer.token().split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    head = b64(json.dumps(header | changed).encode())
    return f"{head}.{body}.{end if signature is None else signature}"


def _hmac(issuer: LocalIssuer) -> str:
    """Sign with HS256 and the issuer's public key as the secret."""
    head = b64(json.dumps({"alg": "HS256", "kid": "r1", "typ": "JWT"}).encode())
    body = b64(json.dumps(issuer.claims()).encode())
    secret = issuer.keys[0].as_pem(private=False)
    mac = hmac.new(secret, f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{b64(mac)}"


def _swapped(issuer: LocalIssuer) -> str:
    head, _, end = issuer.token().split(".")
    return f"{head}.{b64(json.dumps(issuer.claims(groups=['platform'])).encode())}.{end}"
