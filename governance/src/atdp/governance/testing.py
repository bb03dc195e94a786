"""Policies in force for tests of other parts: the register in memory or in Kafka, and no desk."""

from datetime import UTC, datetime

import yaml

from atdp.access import PolicyLog
from atdp.governance.desk.first_policy import put_in_force
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.policy_store import PolicyStore
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
