"""The HTTP gateway: accepts events with durable acknowledgement, and records model calls."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
