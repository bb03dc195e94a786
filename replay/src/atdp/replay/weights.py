"""The digest of a version's weights, which names exactly the bytes that were scored."""

import hashlib
from pathlib import Path

from atdp.replay.errors import WeightsError
from atdp.runtime import file_sha256


def weights_sha256(directory: Path) -> str:
    """Return the hex SHA-256 of the weights (`*.safetensors`) in a model directory.

    The digest of a single file is the digest of its content. Several shards are hashed as the lines
    `name NUL digest` in the order of their names.

    Raises:
        WeightsError: the directory holds no `*.safetensors` file.
    """
    shards = sorted(directory.glob("*.safetensors"))
    if not shards:
        raise WeightsError(f"{directory} holds no *.safetensors file, so it has no weights")
    digests = [file_sha256(shard) for shard in shards]
    if len(shards) == 1:
        return digests[0]
    lines = "".join(
        f"{shard.name}\0{digest}\n" for shard, digest in zip(shards, digests, strict=True)
    )
    return hashlib.sha256(lines.encode()).hexdigest()
