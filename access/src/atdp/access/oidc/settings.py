"""The issuers that a home trusts, and what the claims of their tokens mean (`oidc.yaml`).

    issuers:
    - issuer: https://login.example.com/realms/acme
      audience: atdp
      tenant: acme                # all of its users are of this tenant; or
    # tenant_claim: org           # the claim that names the tenant,
    # tenants: {"4711": acme}     # and the tenants that its values stand for
      roles_claim: groups
      roles:                      # value of the claim: role
        data-stewards: steward
        ml-platform: trainer
      clock_skew_s: 60

A path of claims is written with dots (`realm_access.roles`). A value that is not listed gives
nothing. The file is read when a service starts.
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from atdp.runtime import DocumentError, Home, SettingsError, YamlDocument, tenant_problem

SignInRole = Literal["analyst", "steward", "trainer", "evaluator", "operator", "auditor"]
"""Roles that a token can give. Agents sign their events, so they use keys."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_trusted_url(url: str) -> bool:
    """Return whether keys may be read from a URL: by HTTPS, or from this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username is not None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _checked_issuer(url: str) -> str:
    if not is_trusted_url(url) or urlsplit(url).query or urlsplit(url).fragment:
        raise ValueError("an issuer is an https:// URL (http:// only for this machine)")
    return url


def _checked_tenant(name: str) -> str:
    if (problem := tenant_problem(name)) is not None:
        raise ValueError(problem)
    return name


_Tenant = Annotated[str, AfterValidator(_checked_tenant)]
_ClaimPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=256)]


class IssuerSettings(BaseModel):
    """One issuer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Annotated[str, AfterValidator(_checked_issuer)]
    """Exactly as in the claim `iss`."""
    audience: Annotated[str, Field(min_length=1)]
    """A token must name it in `aud`."""
    tenant: _Tenant | None = None
    tenant_claim: _ClaimPath | None = None
    tenants: dict[str, _Tenant] | None = None
    """Tenants by value of the claim; None: the claim is the tenant's name itself."""
    roles_claim: _ClaimPath
    """Its value is one text or a list of texts."""
    roles: Annotated[dict[str, SignInRole], Field(min_length=1)]
    clock_skew_s: Annotated[int, Field(ge=0, le=300, strict=True)] = 60
    """Largest difference between the clocks of the issuer and of this machine."""

    @model_validator(mode="after")
    def _has_one_source_of_the_tenant(self) -> Self:
        if (self.tenant is None) == (self.tenant_claim is None):
            raise ValueError("name either `tenant` or `tenant_claim`")
        if self.tenants is not None and self.tenant_claim is None:
            raise ValueError("`tenants` needs `tenant_claim`")
        return self


class OidcSettings(BaseModel):
    """All issuers of a home."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuers: Annotated[list[IssuerSettings], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_each_issuer_once(self) -> Self:
        names = [each.issuer for each in self.issuers]
        if len(set(names)) < len(names):
            raise ValueError("an issuer is listed twice")
        return self

    @classmethod
    def of_home(cls, home: Home) -> Self | None:
        """Return the settings of a home; None when it has no `oidc.yaml`.

        Raises:
            SettingsError: the file cannot be read or is wrong; the message names line and column.
        """
        return cls.read(home.oidc_file)

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Return the settings in a file; None when there is no file.

        Raises:
            SettingsError: see `of_home`.
        """
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file} cannot be read: {error}") from error
        try:
            return YamlDocument.parse(text, where=str(file)).as_model(cls)
        except DocumentError as error:
            raise SettingsError(str(error)) from error
