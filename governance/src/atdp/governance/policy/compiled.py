"""A policy made ready: recognizers loaded, patterns compiled, every question of the walk answered by a lookup.

Compiling refuses what would fail open at run time: an entity that nothing can find, a pattern that
does not compile or runs away, a threshold that no finding can reach.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import regex

from atdp.governance.detect.custom import CustomPattern
from atdp.governance.detect.finding import Detector
from atdp.governance.detect.pairs import QuotedPairs, key_name
from atdp.governance.detect.scanner import EntityThreshold, Scanner
from atdp.governance.detect.secrets import ENTITY as SECRET_ENTITY, SecretDetector
from atdp.governance.errors import PolicyError
from atdp.governance.event_paths import event_paths
from atdp.governance.policy.document import ConsentTerms, PolicyDocument, Purpose
from atdp.governance.policy.dropped import dropped_places, drops_context, drops_leaf
from atdp.governance.redact.operators import SEVERITY, Operator


@dataclass(frozen=True, kw_only=True)
class CompiledPolicy:
    """One policy, ready to govern with. Equal content gives equal decisions, in any process."""

    document: PolicyDocument
    content_hash: str
    scanner: Scanner
    operators: Mapping[str, Operator]
    key_entities: Mapping[str, str]
    """Normalised key name → entity."""
    dropped: frozenset[str]
    """Paths of event fields, lists and records (without indexes) that are emptied unread."""
    drops_context: bool
    """Whether text that model calls have read is among them: then no token ids may stay."""

    @property
    def id(self) -> str:
        """The policy's name."""
        return self.document.metadata.id

    @property
    def version(self) -> int:
        """The policy's version."""
        return self.document.metadata.version

    def entity_of_key(self, key: str) -> str | None:
        """The entity that a key's values are, by a key rule."""
        return self.key_entities.get(key_name(key))

    def drops(self, path: str) -> bool:
        """Whether the place at `path` (without indexes, e.g.

        `observation.messages.name`) is emptied unread.
        """
        # A field that the schema does not have yet is decided on by the rules themselves.
        return path in self.dropped or (
            path not in event_paths() and drops_leaf(self.document.fields, path)
        )

    def consent_of(self, tenant: str) -> ConsentTerms:
        """The tenant's consent by this policy."""
        terms = self.document.tenants.get(tenant)
        return self.document.consent if terms is None or terms.consent is None else terms.consent

    def purposes_of(self, tenant: str) -> tuple[Purpose, ...]:
        """The purposes that this policy allows for the tenant's events."""
        terms = self.document.tenants.get(tenant)
        return tuple(
            self.document.purposes if terms is None or terms.purposes is None else terms.purposes
        )


def compile_policy(document: PolicyDocument) -> CompiledPolicy:
    """Load what the policy needs.

    Raises:
        PolicyError: an entity without a recognizer, a bad pattern, an unknown phone region, two
            entities for one key, a field rule that cannot hold.
    """
    dropped = dropped_places(document.fields, policy=document.metadata.id)
    keys = _key_entities(document)
    detectors = _detectors(document, keys)
    thresholds = {
        name: EntityThreshold(
            min_score=rule.min_score,
            severity=SEVERITY[rule.do],
            context=None
            if rule.context is None
            else frozenset(word.lower() for word in rule.context),
            bare_digits=rule.bare_digits == "find",
        )
        for name, rule in document.entities.items()
    }
    return CompiledPolicy(
        document=document,
        content_hash=document.content_hash,
        scanner=Scanner(detectors, thresholds, leaf_chars=document.limits.leaf_chars),
        operators={
            name: Operator(rule.do, rule.scope, rule.keep_last, rule.text)
            for name, rule in document.entities.items()
        },
        key_entities=keys,
        dropped=dropped,
        drops_context=drops_context(dropped),
    )


def _detectors(document: PolicyDocument, keys: Mapping[str, str]) -> list[Detector]:
    # Here, so that reading a policy stays light: these bring phonenumbers and Presidio.
    from atdp.governance.detect.phones import ENTITY as PHONE_ENTITY, PhoneDetector
    from atdp.governance.detect.presidio import pattern_detectors

    timeout_s = document.limits.pattern_timeout_s
    detectors: list[Detector] = []
    custom = {rule.entity for rule in document.patterns} | set(keys.values())
    for entity in document.entities:
        if entity == PHONE_ENTITY:
            detectors.append(PhoneDetector(document.phone_regions))
        elif entity == SECRET_ENTITY:
            detectors.append(SecretDetector(timeout_s))
        else:
            found = pattern_detectors(entity, timeout_s=timeout_s)
            if not found and entity not in custom:
                raise PolicyError(
                    f"policy {document.metadata.id}: no recognizer finds {entity}; "
                    "add a pattern or a key rule for it, or take it out of entities"
                )
            detectors += found
    detectors += [
        CustomPattern(
            name=rule.id,
            entity=rule.entity,
            pattern=rule.pattern,
            group=rule.group,
            flags=(regex.IGNORECASE if rule.ignore_case else 0)
            | (regex.VERBOSE if rule.verbose else 0),
            score=rule.score,
            context=frozenset(word.lower() for word in rule.context),
            timeout_s=timeout_s,
        )
        for rule in document.patterns
    ]
    if keys:
        detectors.append(QuotedPairs(keys, timeout_s))
    return detectors


def _key_entities(document: PolicyDocument) -> Mapping[str, str]:
    keys: dict[str, str] = {}
    for rule in document.keys:
        for name in rule.names:
            normal = key_name(name)
            if not normal:
                raise PolicyError(
                    f"policy {document.metadata.id}: the key name {name!r} has no letter or digit"
                )
            if keys.setdefault(normal, rule.entity) != rule.entity:
                raise PolicyError(
                    f"policy {document.metadata.id}: the key {name!r} is both {keys[normal]} and {rule.entity}"
                )
    return keys
