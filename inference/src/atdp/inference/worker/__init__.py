"""The embedded inference worker: SGLang's HTTP API over small models, on a CPU.

`app` (HTTP) → `engine` (one thread: admission, batched decoding, weight swaps) → `decoder` (the
arithmetic).
"""
