"""Who calls: from the `Authorization` header to a principal and the key that signs its records."""

from dataclasses import dataclass

from fastapi import Request

from atdp.runtime.keys import ANY_TENANT, Action, KeyStore, Principal, tenant_problem
from atdp.runtime.service.problems import Problem
from atdp.schemas import SigningKey


@dataclass(frozen=True)
class Caller:
    """A verified caller; `signing_key` signs on its behalf, so that governance sees who sent a record."""

    principal: Principal
    signing_key: SigningKey


def authenticate(request: Request, keys: KeyStore, action: Action) -> Caller:
    """The caller of a request that needs `action`.

    Raises:
        Problem: 401 without a valid key, 403 when its role may not do this.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    text = text.strip()
    if scheme.lower() != "bearer" or not text:
        raise Problem(
            401,
            "missing_key",
            "no API key: send `Authorization: Bearer atdp_…` (OpenAI clients: api_key=). "
            "`atdp keys create` makes one",
        )
    principal = keys.verify(text)
    if principal is None:
        raise Problem(
            401,
            "invalid_key",
            "this API key is unknown, wrong or revoked; `atdp keys create` makes a new one",
        )
    if not principal.may(action):
        raise Problem(
            403,
            "role_denied",
            f"role {principal.role!r} may not {action}; use a key of a role that may",
        )
    return Caller(principal, SigningKey.parse(text))


def tenant_of(caller: Caller, request: Request) -> str:
    """The tenant a call is for: the key's; an operator names it by `X-ATDP-Tenant`.

    Raises:
        Problem: 422 when an operator names none or what no tenant can be called, 403 when another
            key names a tenant not its own.
    """
    named = request.headers.get("x-atdp-tenant")
    tenant = named or caller.principal.tenant
    if tenant == ANY_TENANT:
        raise Problem(
            422, "tenant_missing", "an operator's key has no tenant: name one by X-ATDP-Tenant"
        )
    if not caller.principal.may_act_for(tenant):
        raise Problem(403, "tenant_denied", f"this key is of another tenant than {tenant!r}")
    if (problem := tenant_problem(tenant)) is not None:
        raise Problem(422, "bad_tenant", f"X-ATDP-Tenant: {problem}")
    return tenant
