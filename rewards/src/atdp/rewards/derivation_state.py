"""The progress of the worker: offsets of the governed log, and rules by tenant.

The state is written after the rewards are acknowledged. A worker that is killed in between derives
them again, under the same ids.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from atdp.rewards.errors import RewardError
from atdp.runtime import write_durably

NO_RULES = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivationState:
    """Everything before `position` is derived, for each tenant by the rules that are named."""

    position: Mapping[int, int] = field(default_factory=dict)
    """Partition → next offset."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Tenant → identity of the rules file, or `NO_RULES` where it is missing or wrong."""

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the state of a file; where there is none, nothing is derived yet.

        Raises:
            RewardError: the file cannot be read.
        """
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                position={int(part): int(offset) for part, offset in value["position"].items()},
                rules={str(tenant): str(identity) for tenant, identity in value["rules"].items()},
            )
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RewardError(
                f"cannot read {file}: {error}; remove the file to derive all rewards again, "
                "which repeats no effect"
            ) from error

    def write(self, file: Path) -> None:
        """Write the state durably."""
        value = {"position": dict(self.position), "rules": dict(self.rules)}
        write_durably(file, json.dumps(value, indent=1) + "\n")
