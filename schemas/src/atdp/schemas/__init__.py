"""The contract of the platform: Avro schemas, event values, codec, record headers, topics.

Everything else depends on this distribution. It depends on fastavro alone, and with the extra
`signing` on cryptography.
"""

from atdp.schemas.face import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
