"""Authentication of HTTP requests by the API key in their `Authorization` header."""

from dataclasses import dataclass

from fastapi import Request

from atdp.runtime.keys import ANY_TENANT, KeyStore, Permission, Principal, tenant_problem
from atdp.runtime.service.http_problem import HttpProblem
from atdp.schemas import SigningKey


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified caller.

    Records that are sent on its behalf are signed with `signing_key`, so that governance can tell
    who sent them.
    """

    principal: Principal
    signing_key: SigningKey


def authenticate(request: Request, keys: KeyStore, permission: Permission) -> Caller:
    """Return the caller of a request that needs `permission`.

    Raises:
        HttpProblem: 401 without a valid key, 403 when the caller's role lacks the permission.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    text = text.strip()
    if scheme.lower() != "bearer" or not text:
        raise HttpProblem(
            401,
            "missing_key",
            "no API key: send `Authorization: Bearer atdp_…` (OpenAI clients: api_key=). "
            "`atdp keys create` makes one",
        )
    principal = keys.verify(text)
    if principal is None:
        raise HttpProblem(
            401,
            "invalid_key",
            "this API key is unknown, wrong or revoked; `atdp keys create` makes a new one",
        )
    if not principal.may(permission):
        raise HttpProblem(
            403,
            "role_denied",
            f"role {principal.role!r} may not {permission}; use a key of a role that may",
        )
    return Caller(principal, SigningKey.parse(text))


def tenant_of(caller: Caller, request: Request) -> str:
    """Return the tenant of a call: the key's; an operator names it by `X-ATDP-Tenant`.

    Raises:
        HttpProblem: 422 when an operator names no tenant or an impossible name, 403 when another
            key names a tenant that is not its own.
    """
    named = request.headers.get("x-atdp-tenant")
    tenant = named or caller.principal.tenant
    if tenant == ANY_TENANT:
        raise HttpProblem(
            422, "tenant_missing", "an operator's key has no tenant: name one by X-ATDP-Tenant"
        )
    if not caller.principal.may_act_for(tenant):
        raise HttpProblem(
            403, "tenant_denied", f"this key belongs to another tenant than {tenant!r}"
        )
    if (problem := tenant_problem(tenant)) is not None:
        raise HttpProblem(422, "bad_tenant", f"X-ATDP-Tenant: {problem}")
    return tenant
