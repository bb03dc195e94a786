"""Visits of customers to the order desk, and their results."""

from dataclasses import dataclass

from atdp.sdk import Recorder
from order_desk.order_task import CustomerOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccess:
    """The access of a tenant's agents: their key for the gateway, and a recorder of their own."""

    name: str
    api_key: str
    recorder: Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One attempt at an order for a tenant; `phase` keeps the ids of different phases apart."""

    tenant: str
    phase: str
    order: CustomerOrder
    attempt: int = 0

    @property
    def trajectory_id(self) -> str:
        """An id that is unique in the demo. With the attempt in it, each attempt is a session."""
        return f"{self.phase}.{self.order.task_id}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitResult:
    """The result of a visit. `weight_version` is None when the first model call already failed."""

    visit: Visit
    reward: float
    turns: int
    track: str | None
    weight_version: str | None
    latency_s: float
    failure: str | None = None
