"""Access control lists at a real cluster, as `AclRule` values."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from atdp.stack.kafka_rights.acl_rules import AclRule

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient

_TIMEOUT_S: Final = 30.0
_USER: Final = "User:"


def may_read_rules(admin: "AdminClient") -> bool:
    """Return whether this user may read the rules; `read_rules` shows none to one who may not."""
    from confluent_kafka.admin import AclOperation

    described = admin.describe_cluster(include_authorized_operations=True).result(_TIMEOUT_S)
    return AclOperation.DESCRIBE in (described.authorized_operations or ())


def read_rules(admin: "AdminClient") -> frozenset[AclRule]:
    """Return all rules; none for a cluster without an authorizer, too.

    Raises:
        KafkaException: the cluster does not answer.
    """
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return frozenset(
        AclRule(
            user=binding.principal.removeprefix(_USER),
            kind=binding.restype.name,
            name=binding.name,
            operation=binding.operation.name,
            is_prefix=binding.resource_pattern_type is ResourcePatternType.PREFIXED,
            is_allowed=binding.permission_type is AclPermissionType.ALLOW,
            host=binding.host,
        )
        for binding in admin.describe_acls(everything).result(_TIMEOUT_S)
    )


def add_rules(admin: "AdminClient", rules: Iterable[AclRule]) -> None:
    """Add rules; one that is there already is left as it is.

    Raises:
        KafkaException: the cluster refuses it.
    """
    bindings = [_binding(rule) for rule in rules]
    for added in (admin.create_acls(bindings) if bindings else {}).values():
        added.result(_TIMEOUT_S)


def remove_rules(admin: "AdminClient", rules: Iterable[AclRule]) -> None:
    """Remove exactly these rules.

    Raises:
        KafkaException: the cluster refuses it.
    """
    filters = [_filter(rule) for rule in rules]
    for removed in (admin.delete_acls(filters) if filters else {}).values():
        removed.result(_TIMEOUT_S)


def _binding(rule: AclRule) -> "AclBinding":
    from confluent_kafka.admin import AclBinding

    return AclBinding(*_fields(rule))


def _filter(rule: AclRule) -> "AclBindingFilter":
    from confluent_kafka.admin import AclBindingFilter

    return AclBindingFilter(*_fields(rule))


def _fields(rule: AclRule) -> tuple[object, ...]:
    from confluent_kafka.admin import (
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    pattern = ResourcePatternType.PREFIXED if rule.is_prefix else ResourcePatternType.LITERAL
    return (
        ResourceType[rule.kind],
        rule.name,
        pattern,
        f"{_USER}{rule.user}",
        rule.host,
        AclOperation[rule.operation],
        AclPermissionType.ALLOW if rule.is_allowed else AclPermissionType.DENY,
    )
