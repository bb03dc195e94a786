"""The options of `init` that come from the environment.

| variable | option |
| -- | -- |
| `ATDP_TENANT` | `tenant` |
| `ATDP_API_KEY` | `api_key` |
| `ATDP_AGENT` | `agent` |
| `ATDP_GATEWAY_URL` | `sender`: `GatewaySender` |
| `ATDP_KAFKA_BOOTSTRAP`, `ATDP_KAFKA_…` | `sender`: `KafkaSender` |

Without an address, the gateway of the stack that runs in `ATDP_HOME` is used, as in all commands.
An API key does not tell its tenant, so the tenant is given. Everything that is missing or that
contradicts itself is reported at once.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from atdp.sdk.errors import ConfigurationError
from atdp.sdk.senders.port import Sender

_SECURITY: Final = {
    "ATDP_KAFKA_SECURITY_PROTOCOL": "security_protocol",
    "ATDP_KAFKA_SASL_MECHANISM": "sasl_mechanism",
    "ATDP_KAFKA_SASL_USERNAME": "sasl_username",
    "ATDP_KAFKA_SASL_PASSWORD": "sasl_password",
    "ATDP_KAFKA_SSL_CA": "ssl_ca_location",
}
_TWO_ADDRESSES: Final = (
    "ATDP_GATEWAY_URL and ATDP_KAFKA_BOOTSTRAP are both set and name different ways; "
    "unset one of them, or pass sender="
)
_LOGIN: Final = (
    "ATDP_KAFKA_SASL_MECHANISM",
    "ATDP_KAFKA_SASL_USERNAME",
    "ATDP_KAFKA_SASL_PASSWORD",
)


def options_from_environment(
    given: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the options of a recorder: those given, and the rest from the environment.

    Raises:
        ConfigurationError: variables are missing or contradict each other; the message names all.
    """
    env = os.environ if environ is None else environ
    options = dict(given)
    faults = []
    for option, variable, advice in (
        ("tenant", "ATDP_TENANT", "the tenant that the API key was made for"),
        ("api_key", "ATDP_API_KEY", "a key that `atdp keys create` made"),
    ):
        options[option] = options.get(option) or env.get(variable)
        if not options[option]:
            faults.append(f"set {variable} to {advice}, or pass {option}=")
    if options.get("agent") is None and env.get("ATDP_AGENT"):
        options["agent"] = env["ATDP_AGENT"]
    if options.get("sender") is None:
        faults += _sender_faults(env)
    if faults:
        raise ConfigurationError(f"atdp.sdk.init: {'; '.join(faults)}")
    if options.get("sender") is None:
        options["sender"] = _sender(env)
    return options


def _sender_faults(env: Mapping[str, str]) -> list[str]:
    if not env.get("ATDP_KAFKA_BOOTSTRAP"):
        return [] if _gateway(env) else [_no_address(env)]
    if env.get("ATDP_GATEWAY_URL"):
        return [_TWO_ADDRESSES]
    protocol = env.get("ATDP_KAFKA_SECURITY_PROTOCOL", "plaintext").upper()
    faults = []
    with_login = protocol.startswith("SASL")
    odd = ", ".join(variable for variable in _LOGIN if bool(env.get(variable)) != with_login)
    if odd and with_login:
        faults.append(f"set {odd}, which ATDP_KAFKA_SECURITY_PROTOCOL={protocol} needs")
    elif odd:
        faults.append(
            f"{odd} would not be used without SASL; "
            "set ATDP_KAFKA_SECURITY_PROTOCOL to SASL_SSL or SASL_PLAINTEXT, or unset it"
        )
    if env.get("ATDP_KAFKA_SSL_CA") and not protocol.endswith("SSL"):
        faults.append(
            "ATDP_KAFKA_SSL_CA would not be used without TLS; "
            "set ATDP_KAFKA_SECURITY_PROTOCOL to SSL or SASL_SSL, or unset it"
        )
    return faults


def _sender(env: Mapping[str, str]) -> Sender:
    if bootstrap := env.get("ATDP_KAFKA_BOOTSTRAP"):
        from atdp.sdk.senders.kafka import KafkaSender

        security = {
            option: env[variable] for variable, option in _SECURITY.items() if env.get(variable)
        }
        return KafkaSender(bootstrap, **security)
    from atdp.sdk.senders.gateway import GatewaySender

    return GatewaySender(_gateway(env) or "")


def _gateway(env: Mapping[str, str]) -> str | None:
    """Return the address of the gateway: the one that is set, else that of the running stack."""
    if url := env.get("ATDP_GATEWAY_URL"):
        return url
    try:
        addresses = json.loads(_endpoints_file(env).read_text("utf-8"))
        address = addresses["gateway"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no stack runs there
    return address if isinstance(address, str) else None


def _no_address(env: Mapping[str, str]) -> str:
    return (
        "set ATDP_GATEWAY_URL (`atdp status` shows it) or ATDP_KAFKA_BOOTSTRAP, or pass sender= "
        f"(no stack runs in {_endpoints_file(env).parent.parent})"
    )


def _endpoints_file(env: Mapping[str, str]) -> Path:
    return Path(env.get("ATDP_HOME") or ".atdp").absolute() / "run" / "endpoints.json"
