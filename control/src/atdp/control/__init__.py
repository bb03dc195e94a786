"""The Agent Evolution Control Plane: which version of an agent's model is released.

A candidate passes the release gate (replay), becomes the canary, and is promoted or rolled back.
Each decision is an event with its evidence.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
