"""The parts of every service process: home, API keys, Kafka settings, service frame, files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
