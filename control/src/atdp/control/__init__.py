"""The release flow: candidate, replay gate, canary, promotion or roll-back, each decision an event with its evidence."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
