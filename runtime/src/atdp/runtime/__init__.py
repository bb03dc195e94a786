"""Home, API keys, Kafka settings, service frame and durable files: what every process of the platform stands on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
