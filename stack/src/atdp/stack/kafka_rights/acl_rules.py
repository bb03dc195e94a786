"""Access control lists of Kafka as values, and the ones that the platform wants.

They follow from `topics.toml` and `principals.toml` of `atdp.schemas` alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from atdp.schemas import LOOK_GROUPS, KafkaPrincipal, all_kafka_principals, all_topics

EVERYBODY: Final = "*"
_OF_PLATFORM: Final = {"TOPIC": "atdp.", "GROUP": "atdp-"}
"""Prefixes of the names of topics and consumer groups."""
_IMPLIED: Final = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}
"""Operation → those that Kafka lets follow from it."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AclRule:
    """One entry; operations and kinds are named as in `confluent_kafka.admin`."""

    user: str
    """Without the prefix "User:"; `*`: everybody."""
    kind: str
    name: str
    """`*`: every resource of the kind."""
    operation: str
    is_prefix: bool = False
    """The rule is for every resource whose name begins with `name`."""
    is_allowed: bool = True
    host: str = EVERYBODY

    def is_about(self, kind: str, name: str) -> bool:
        """Return whether the rule is about this resource."""
        if self.kind != kind:
            return False
        return name.startswith(self.name) if self.is_prefix else self.name in (name, "*")

    def gives(self, wanted: "AclRule") -> bool:
        """Return whether what `wanted` allows follows from this rule, wherever the user is."""
        operations = {wanted.operation, "ALL", *_IMPLIED.get(wanted.operation, ())}
        return self.is_allowed and self._is_for(wanted) and self.operation in operations

    def denies(self, wanted: "AclRule") -> bool:
        """Return whether this rule takes away what `wanted` allows."""
        needed_for = {self.operation, *_IMPLIED.get(self.operation, ())}
        is_denied = self.operation == "ALL" or wanted.operation in needed_for
        return not self.is_allowed and self._is_for(wanted, some_host=True) and is_denied

    def _is_for(self, wanted: "AclRule", *, some_host: bool = False) -> bool:
        is_for_user = self.user in (wanted.user, EVERYBODY)
        is_for_host = some_host or self.host == EVERYBODY
        return is_for_user and is_for_host and self.is_about(wanted.kind, wanted.name)


def wanted_rules(users: Mapping[str, str]) -> frozenset[AclRule]:
    """Return the rules of the principals in `users` (name of the principal → Kafka user)."""
    rules = set()
    for each in all_topics().values():
        for operation, names in (("READ", each.readers), ("WRITE", each.writers)):
            rules |= {
                AclRule(user=users[name], kind="TOPIC", name=each.name, operation=operation)
                for name in names
                if name in users
            }
    for name, user in users.items():
        rules |= set(_other_rules(all_kafka_principals()[name], user))
    return frozenset(rules)


def _other_rules(principal: KafkaPrincipal, user: str) -> Iterable[AclRule]:
    for group in principal.groups:
        yield AclRule(user=user, kind="GROUP", name=group, operation="READ")
    for name in principal.transactional_ids:
        yield AclRule(user=user, kind="TRANSACTIONAL_ID", name=name, operation="WRITE")
    if principal.looks:
        yield AclRule(
            user=user, kind="GROUP", name=LOOK_GROUPS, operation="DESCRIBE", is_prefix=True
        )
    if principal.inspects:
        for kind, operation in (
            ("TOPIC", "DESCRIBE"),
            ("TOPIC", "DESCRIBE_CONFIGS"),
            ("GROUP", "DESCRIBE"),
        ):
            yield AclRule(
                user=user, kind=kind, name=_OF_PLATFORM[kind], operation=operation, is_prefix=True
            )
        yield AclRule(user=user, kind="BROKER", name="kafka-cluster", operation="DESCRIBE")
