"""Names and passwords of a home's Kafka users: one file for each principal, mode 0600.

A file holds the properties of a Kafka client (librdkafka's names) as a JSON object. An agent that
writes to the home's broker directly gets the file of the principal `agent`, and no other.
"""

import json
import secrets
import stat
from collections.abc import Mapping

from atdp.runtime.durable_files import write_durably
from atdp.runtime.errors import SettingsError
from atdp.runtime.file_locks import locked
from atdp.runtime.home import Home
from atdp.schemas import KafkaPrincipal, all_kafka_principals

_PASSWORD_BYTES = 32


def ensure_kafka_logins(home: Home) -> None:
    """Make the files that are missing."""
    home.kafka_logins.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(home.kafka_logins / ".lock"):
        for principal in all_kafka_principals().values():
            path = home.kafka_logins / f"{principal.name}.json"
            if not path.exists():
                write_durably(
                    path, json.dumps(new_kafka_login(principal), indent=1) + "\n", mode=0o600
                )


def load_kafka_login(home: Home, principal: str) -> Mapping[str, str]:
    """Return the client properties of a principal; empty where the home has no Kafka users.

    Raises:
        SettingsError: the home has Kafka users and this principal is none of them, or its file
            is damaged or readable by other users.
    """
    if not home.kafka_logins.exists():
        return {}
    path = home.kafka_logins / f"{principal}.json"
    try:
        is_open = stat.S_IMODE(path.stat().st_mode) & 0o077
        text = path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(
            f"the Kafka user {principal!r} is unknown: {path} cannot be read "
            f"({error.strerror}); `atdp up` makes the files of {', '.join(all_kafka_principals())}"
        ) from error
    if is_open:
        raise SettingsError(f"{path} can be read by other users; run: chmod 600 {path}")
    login = _parsed(text)
    if login is None:
        raise SettingsError(
            f"{path} is damaged; remove it, then `atdp down` and `atdp up` make a new password"
        )
    return login


def new_kafka_login(principal: KafkaPrincipal) -> dict[str, str]:
    """Return client properties with a new password."""
    # The administrator's password is in the broker's own configuration, and not in its metadata:
    # it makes the users there.
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN" if principal.is_administrator else "SCRAM-SHA-256",
        "sasl.username": principal.user,
        "sasl.password": secrets.token_urlsafe(_PASSWORD_BYTES),
    }


def _parsed(text: str) -> Mapping[str, str] | None:
    try:
        login = json.loads(text)
    except ValueError:
        return None
    if not isinstance(login, dict) or not all(isinstance(each, str) for each in login.values()):
        return None
    return login if {"sasl.username", "sasl.password"} <= login.keys() else None
