"""The embedded inference worker: SGLang's HTTP interface over small models, on a CPU, with little memory.

`app` (HTTP) → `engine` (one thread: admission, batched decoding, weight swaps) → `decoder` (the
arithmetic).
"""
