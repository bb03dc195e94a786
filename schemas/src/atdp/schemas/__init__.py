"""The contract of the platform: Avro schemas, event values, codec, record headers, topics.

Everything else depends on this distribution, and it depends on fastavro alone.
"""

from atdp.schemas.face import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
