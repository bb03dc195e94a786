"""The HTTP gateway: events in with a durable acknowledgement, and the recording model proxy."""

from atdp.gateway.app import OpenLog, create_app
from atdp.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "OpenLog", "create_app"]
