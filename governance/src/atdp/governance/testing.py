"""Policies in force and keys in memory, for tests of other parts; there is no desk."""

from datetime import UTC, datetime

import yaml

from atdp.access import PolicyLog
from atdp.governance.desk.first_policy import put_in_force
from atdp.governance.home_secrets import secrets_in_memory
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.policy_store import PolicyStore
from atdp.governance.wrapped_keys import KeyScope, WrappedKeys
from atdp.runtime import MemoryLog, MemoryRegister, Register

_ACTOR = "key:000000000000"


class PolicyWriter:
    """Puts policies in force in a register; the version of each one rises by itself."""

    def __init__(self, register: Register | None = None) -> None:
        """Write to `register`, which nobody else reads from; by default to one in memory."""
        self.log = MemoryLog()
        self._register = register or MemoryRegister(self.log)
        self._policies = PolicyLog()

    def activate(self, text: str) -> None:
        """Put the policy in force for its tenants.

        Raises:
            PolicyError: the text is no policy.
            PolicyDecisionRefused: another policy names one of its tenants.
        """
        for entry in self._register.read():
            self._policies.apply(entry)
        document = yaml.safe_load(text)
        active = self._policies.active.get(document["metadata"]["id"])
        if active is not None:
            document["metadata"]["version"] = active.content.version + 1
            text = yaml.safe_dump(document, sort_keys=False)
        put_in_force(self._register, self._policies, text, actor=_ACTOR, now=datetime.now(UTC))

    def store(self) -> PolicyStore:
        """Return a store of the policies in memory, which follows later activations."""
        store = PolicyStore(MemoryRegister(self.log))
        store.refresh()
        return store


def policy_store(*texts: str) -> PolicyStore:
    """Return a store in which these policies are in force; without any, the default policy is."""
    writer = PolicyWriter()
    for text in texts or [default_policy_text()]:
        writer.activate(text)
    return writer.store()


def memory_secrets(**pseudonym_keys: bytes) -> WrappedKeys:
    """Return keys in memory; each tenant's key of pseudonyms that is given is the same always."""
    keys = secrets_in_memory()
    with keys.writing():
        for tenant, key in pseudonym_keys.items():
            keys.add(KeyScope("pseudonyms", tenant), key)
    return keys
