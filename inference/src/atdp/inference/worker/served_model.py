"""A model directory opened for serving: decoder, tokenizer, chat template and their identities."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from atdp.inference.chat_template import ChatTemplate, default_template
from atdp.inference.errors import ModelError
from atdp.inference.tokenizer_identity import template_hash, tokenizer_hash
from atdp.inference.worker.decoder import Decoder
from atdp.inference.worker.decoder_choice import DecoderKind, load_decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """Everything that changes together in a weight swap."""

    path: Path
    version: str
    name: str
    model_type: str
    architectures: tuple[str, ...]
    decoder: Decoder
    tokenizer: Tokenizer
    template: ChatTemplate
    eos_ids: frozenset[int]
    tokenizer_hash: str
    template_hash: str
    weights_sha256: str | None = None
    """Digest of the weights; None where they were opened without being verified."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        version: str | None = None,
        kind: DecoderKind = "auto",
        max_rows: int = 64,
        device: str = "cpu",
    ) -> "ServedModel":
        """Load a model directory.

        `version` defaults to the one in its manifest.

        Raises:
            ModelError: the directory cannot be served; the message holds the reason.
        """
        if not path.is_dir():
            raise ModelError(f"Failed to load weights: {path} is not a directory on this machine.")
        config = _json(path / "config.json", required=True)
        settings = _json(path / "tokenizer_config.json", required=False)
        manifest = _json(path / "manifest.json", required=False)
        try:
            tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:
            # The tokenizers library raises a bare Exception for a missing or broken file.
            raise ModelError(f"Failed to load {path / 'tokenizer.json'}: {error}") from error
        tokens = {
            key: _token_text(settings.get(key)) for key in ("eos_token", "bos_token", "pad_token")
        }
        source = settings.get("chat_template") or default_template()
        return cls(
            path=path,
            version=version or str(manifest.get("version") or "default"),
            name=str(manifest.get("model") or path.name),
            model_type=str(config.get("model_type")),
            architectures=tuple(config.get("architectures") or ()),
            decoder=load_decoder(path, kind=kind, max_rows=max_rows, device=device),
            tokenizer=tokenizer,
            template=ChatTemplate(source, **tokens),
            eos_ids=_end_tokens(config, tokenizer.token_to_id(tokens["eos_token"])),
            tokenizer_hash=tokenizer_hash(path / "tokenizer.json"),
            template_hash=template_hash(source),
        )

    def text(self, ids: tuple[int, ...], *, skip_special_tokens: bool = True) -> str:
        """Return the text of token ids."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of text; control tokens that are written in it are recognised."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)


def _json(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.is_file():
        if required:
            raise ModelError(f"Failed to load weights: {path} does not exist.")
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ModelError(f"Failed to load weights: {path} is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _end_tokens(config: dict[str, Any], declared: int | None) -> frozenset[int]:
    """Return the ids that end a reply: those of the config, and the tokenizer's own."""
    configured = config.get("eos_token_id")
    if configured is None:
        ids: set[int] = set()
    else:
        ids = set(configured) if isinstance(configured, list) else {configured}
    return frozenset(ids if declared is None else ids | {declared})


def _token_text(value: object) -> str:
    """Return a special token's text; it is written as text or as `{"content": text}`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""
