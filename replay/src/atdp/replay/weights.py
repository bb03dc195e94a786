"""Names a version's weights by their bytes, so that a verdict is about exactly what was scored."""

import hashlib
from pathlib import Path

from atdp.inference import EngineError


def weights_sha256(directory: Path) -> str:
    """Hex SHA-256 over the `*.safetensors` files of a model directory (a single file: of that file).

    Several shards are hashed as `name NUL digest` lines in name order. Raises `EngineError` when
    there is none.
    """
    shards = sorted(directory.glob("*.safetensors"))
    if not shards:
        raise EngineError(f"{directory} holds no *.safetensors, so there are no weights to name")
    digests = []
    for shard in shards:
        with shard.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(shards) == 1:
        return digests[0]
    lines = "".join(
        f"{shard.name}\0{digest}\n" for shard, digest in zip(shards, digests, strict=True)
    )
    return hashlib.sha256(lines.encode()).hexdigest()
