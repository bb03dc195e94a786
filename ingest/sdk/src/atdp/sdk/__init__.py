"""The part that agents install: recorder, durable spool and senders of ATDP events."""

import logging

from atdp.schemas import lazy_face

# A library's logger must not print when the host has set up no logging.
logging.getLogger("atdp.sdk").addHandler(logging.NullHandler())

__getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
