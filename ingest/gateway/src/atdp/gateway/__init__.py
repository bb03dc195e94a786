"""The HTTP gateway: events in with a durable acknowledgement, and the recording model proxy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
