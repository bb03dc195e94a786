"""Identities of tokenizers and chat templates, and the store of tokenizers by identity.

Token ids mean nothing without the tokenizer that made them. Generations therefore carry the hash of
their tokenizer, and governance finds the tokenizer by that hash, decodes the ids and scans the text
before they may pass. The ids of an unregistered tokenizer are removed.
"""

import hashlib
import json
from pathlib import Path

from atdp.runtime import file_sha256, write_durably


def tokenizer_hash(tokenizer_json: Path) -> str:
    """Return the identity of a tokenizer: the SHA-256 (hex) of its `tokenizer.json`."""
    return file_sha256(tokenizer_json)


def template_hash(template: str) -> str:
    """Return the identity of a chat template: the SHA-256 (hex) of its UTF-8 text."""
    return hashlib.sha256(template.encode()).hexdigest()


def directory_template_hash(model_dir: Path) -> str | None:
    """Return the identity of a model directory's own chat template, None when it has none.

    The file `chat_template.jinja` goes before the entry in `tokenizer_config.json`, as in
    transformers.

    Raises:
        OSError: a file cannot be read.
        ValueError: `tokenizer_config.json` is not JSON.
    """
    separate = model_dir / "chat_template.jinja"
    if separate.is_file():
        return file_sha256(separate)
    config = model_dir / "tokenizer_config.json"
    template = (
        json.loads(config.read_text("utf-8")).get("chat_template") if config.is_file() else None
    )
    return template_hash(template) if isinstance(template, str) else None


def register_tokenizer(tokenizers: Path, tokenizer_json: Path) -> str:
    """Copy a tokenizer to `<tokenizers>/<hash>/tokenizer.json` and return the hash."""
    content = tokenizer_json.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    target = tokenizers / digest / "tokenizer.json"
    if not target.exists():
        write_durably(target, content)
    return digest


def registered_tokenizer(tokenizers: Path, identity: str) -> bytes | None:
    """Return the content of a registered `tokenizer.json`; None where it is absent or altered."""
    try:
        content = (tokenizers / Path(identity).name / "tokenizer.json").read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == identity else None
