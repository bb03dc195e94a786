"""Users and rights at a real cluster: set on the local broker, compared elsewhere."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from atdp.runtime import Home, KafkaSettings, load_kafka_login
from atdp.schemas import all_kafka_principals
from atdp.stack.errors import StackError
from atdp.stack.kafka_rights.acl_bindings import (
    add_rules,
    may_read_rules,
    read_rules,
    remove_rules,
)
from atdp.stack.kafka_rights.acl_rules import wanted_rules
from atdp.stack.kafka_rights.rights_comparison import compare_rights, sentences

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ADMINISTRATOR: Final = "admin"
_TIMEOUT_S: Final = 30.0
_ITERATIONS: Final = 4096
"""Kafka's least number. The passwords are random and long, so that more would protect nothing."""

_UNKNOWN: Final = (
    "it is unknown who may read and write the topics, because the Kafka user {user} may not read "
    "the access control lists; run: kafka-acls --bootstrap-server {bootstrap} --command-config "
    "admin.properties --add --allow-principal User:{user} --operation Describe --cluster"
)


def kafka_users(home: Home, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the Kafka user of each principal but the administrator.

    With a user name in the environment all services share it, and the users of agents are unknown.
    """
    names = [name for name in all_kafka_principals() if name != ADMINISTRATOR]
    if shared := environ.get("ATDP_KAFKA_SASL_USERNAME"):
        return {name: shared for name in names if name != "agent"}
    return {name: _user(home, name) for name in names}


def set_up_rights(home: Home, administrator: KafkaSettings) -> None:
    """Give the local broker the users of the home, with exactly the wanted rights.

    Passwords are set at every start, so that a file that was made anew takes effect.

    Raises:
        StackError: the broker does not accept it.
    """
    admin, users = _client(administrator), kafka_users(home, {})
    with _as_stack_error("set the users and rights", administrator):
        _set_passwords(
            admin,
            {user: load_kafka_login(home, name)["sasl.password"] for name, user in users.items()},
        )
        wanted, existing = wanted_rules(users), read_rules(admin)
        add_rules(admin, wanted - existing)
        remove_rules(admin, existing - wanted)


def rights_problems(home: Home, environ: Mapping[str, str], settings: KafkaSettings) -> list[str]:
    """Return what is wrong with the rights at a cluster, each with the command that mends it.

    Raises:
        StackError: the cluster does not answer.
    """
    admin, users = _client(settings), kafka_users(home, environ)
    with _as_stack_error("read the access control lists", settings):
        if not may_read_rules(admin):
            return [_UNKNOWN.format(bootstrap=settings.bootstrap, user=users["operator"])]
        existing = read_rules(admin)
    comparison = compare_rights(
        wanted_rules(users), existing, administrators={_user(home, ADMINISTRATOR)}
    )
    return sentences(comparison, settings.bootstrap)


def _user(home: Home, principal: str) -> str:
    default = all_kafka_principals()[principal].user
    return load_kafka_login(home, principal).get("sasl.username", default)


def _set_passwords(admin: "AdminClient", passwords: Mapping[str, str]) -> None:
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
    changes = [
        UserScramCredentialUpsertion(user, info, password.encode())
        for user, password in passwords.items()
    ]
    for done in admin.alter_user_scram_credentials(changes).values():
        done.result(_TIMEOUT_S)


def _client(settings: KafkaSettings) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    return AdminClient({**settings.config(), "log_level": 0})


@contextmanager
def _as_stack_error(action: str, settings: KafkaSettings) -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise StackError(
            f"Cannot {action} at {settings.bootstrap}: {error.args[0].str()}. "
            "Check that the broker runs, and the security settings."
        ) from error
