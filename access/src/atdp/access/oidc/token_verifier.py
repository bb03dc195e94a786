"""Tokens (JWT) of trusted issuers: their check, and the principal that their claims give.

The order is fixed: form, algorithm (only RS256 and ES256, so that neither `none` nor a public key
used as a secret gets through), issuer, key, signature, audience, times, and only then the claims.
Messages name the claim that is wrong, never its value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import jwt

from atdp.access.oidc.issuer_keys import ALGORITHMS, IssuerKeys
from atdp.access.oidc.settings import IssuerSettings, OidcSettings
from atdp.runtime import ANY_TENANT, Home, HttpProblem, Principal, tenant_problem, utc_now

_MOST_CHARACTERS: Final = 16 * 1024
_SUBJECT: Final = re.compile(r"[\x21-\x7e]{1,255}")
_MOST_SECONDS: Final = 1e12
_ROLES: Final = 100
"""Most values of the claim of roles that are looked at."""


class OidcVerifier:
    """Checks tokens; a `TokenVerifier`. Safe to use from several threads."""

    def __init__(self, settings: OidcSettings, *, now: Callable[[], datetime] = utc_now) -> None:
        """Take the issuers; their keys are read when they are needed."""
        self._issuers = {each.issuer: each for each in settings.issuers}
        self._keys = {each.issuer: IssuerKeys(each.issuer) for each in settings.issuers}
        self._now = now

    def principal_of(self, token: str) -> Principal:
        """See `TokenVerifier`."""
        issuer, claims = self._verified(token)
        _check_times(claims, issuer.clock_skew_s, self._now().timestamp())
        subject = claims.get("sub")
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            raise _invalid("claim_missing", "the claim `sub` is missing or not a plain text")
        tenant = _tenant(issuer, claims)
        roles = _roles(issuer, claims)
        if "operator" in roles and len(roles) > 1:
            raise HttpProblem(
                403,
                "roles_conflict",
                "the token gives the role operator together with other roles; an operator acts "
                "for all tenants and has no further role",
            )
        return Principal(
            key_id="",
            tenant=ANY_TENANT if "operator" in roles else tenant,
            role=roles[0],
            further_roles=tuple(roles[1:]),
            issuer=issuer.issuer,
            subject=subject,
        )

    def _verified(self, token: str) -> tuple[IssuerSettings, Mapping[str, Any]]:
        """Return issuer and claims of a token with a valid signature and audience."""
        try:
            if len(token) > _MOST_CHARACTERS:
                raise jwt.InvalidTokenError
            header = jwt.get_unverified_header(token)
            unverified = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _invalid("token_malformed", "the token is not a JWT") from error
        if header.get("alg") not in ALGORITHMS or "crit" in header:
            raise _invalid(
                "algorithm_denied", f"tokens are accepted with {' or '.join(ALGORITHMS)} only"
            )
        name = unverified.get("iss")
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        if issuer is None:
            raise _invalid(
                "issuer_unknown", "the token is of an issuer that oidc.yaml does not list"
            )
        keys, key_id = self._keys[issuer.issuer], header.get("kid")
        key = _checked_key(keys.key(key_id), header)
        if key_id is None and not _is_signed(token, key):
            key = _checked_key(keys.key(None, newer=True), header)
        return issuer, _claims(token, key, issuer)


def open_token_verifier(home: Home) -> OidcVerifier | None:
    """Return the verifier of a home; None when it has no `oidc.yaml`.

    Raises:
        SettingsError: the file is wrong.
    """
    settings = OidcSettings.of_home(home)
    return None if settings is None else OidcVerifier(settings)


def _checked_key(key: jwt.PyJWK | None, header: Mapping[str, Any]) -> jwt.PyJWK:
    if key is None:
        raise _invalid("key_unknown", "the issuer has no key with the id that the token names")
    if key.algorithm_name != header["alg"]:
        raise _invalid("algorithm_denied", "the key of the token is for another algorithm")
    return key


def _is_signed(token: str, key: jwt.PyJWK) -> bool:
    try:
        jwt.PyJWS().decode(token, key, algorithms=list(ALGORITHMS))
    except jwt.PyJWTError:
        return False
    return True


def _claims(token: str, key: jwt.PyJWK, issuer: IssuerSettings) -> Mapping[str, Any]:
    """Return the claims after signature, issuer and audience are checked; times are not."""
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=issuer.audience,
            issuer=issuer.issuer,
            options={
                "require": ["iss", "aud", "exp", "sub"],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_sub": False,
            },
        )
    except jwt.InvalidSignatureError as error:
        raise _invalid("signature_invalid", "the signature of the token is wrong") from error
    except jwt.MissingRequiredClaimError as error:
        raise _invalid("claim_missing", f"the claim `{error.claim}` is missing") from error
    except jwt.InvalidAudienceError as error:
        raise _invalid("audience_wrong", "the token is for another audience (`aud`)") from error
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise _invalid("token_malformed", "the token cannot be read") from error
    return claims


def _check_times(claims: Mapping[str, Any], skew_s: int, now_s: float) -> None:
    """Check `exp`, `nbf` and `iat`, each with the tolerated difference of clocks."""
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    for name, value in times.items():
        # The comparison is false for NaN.
        if type(value) not in (int, float) or not abs(value) < _MOST_SECONDS:
            raise _invalid("token_malformed", f"the claim `{name}` is not a number of seconds")
    if now_s >= times["exp"] + skew_s:
        raise _invalid("token_expired", "the token has expired; sign in again")
    for name in ("nbf", "iat"):
        if name in times and now_s < times[name] - skew_s:
            raise _invalid(
                "token_not_yet_valid",
                f"the token is not valid yet (`{name}` is in the future); compare the clocks of "
                "this machine and of the issuer",
            )


def _tenant(issuer: IssuerSettings, claims: Mapping[str, Any]) -> str:
    if issuer.tenant is not None:
        return issuer.tenant
    assert issuer.tenant_claim is not None  # one of the two is set
    value = _claim(claims, issuer.tenant_claim)
    if not isinstance(value, str) or not value:
        raise HttpProblem(
            403, "tenant_missing", f"the token has no tenant: no text in `{issuer.tenant_claim}`"
        )
    tenant = value if issuer.tenants is None else issuer.tenants.get(value)
    if tenant is None or tenant_problem(tenant) is not None:
        raise HttpProblem(
            403,
            "tenant_unknown",
            f"the value of `{issuer.tenant_claim}` stands for no tenant; see oidc.yaml",
        )
    return tenant


def _roles(issuer: IssuerSettings, claims: Mapping[str, Any]) -> Sequence[str]:
    value = _claim(claims, issuer.roles_claim)
    values = value if isinstance(value, list) else [value]
    roles = {
        issuer.roles[each]: None
        for each in values[:_ROLES]
        if isinstance(each, str) and each in issuer.roles
    }
    if not roles:
        raise HttpProblem(
            403,
            "role_missing",
            f"no value of `{issuer.roles_claim}` gives a role; see `roles` in oidc.yaml",
        )
    return sorted(roles)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of claims; None when there is none."""
    # A claim can have dots in its name, as `https://example.com/tenant` has.
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _invalid(code: str, message: str) -> HttpProblem:
    return HttpProblem(401, code, message)
