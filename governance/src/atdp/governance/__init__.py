"""Governance of events between the raw event log and the lake: redaction, consent, audit.

Importing this package is light. Recognizers are loaded when a policy is compiled.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
