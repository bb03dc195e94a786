"""Importers of trajectory formats."""

from atdp.schemas import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
