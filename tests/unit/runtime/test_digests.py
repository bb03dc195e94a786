from pathlib import Path

import pytest

from atdp.runtime import file_sha256


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    # FIPS 180-2, appendix B: SHA-256 of "abc", and of a million times "a".
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert file_sha256(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    file.write_bytes(b"a" * 1_000_000)
    assert file_sha256(file) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_sha256(tmp_path / "missing")
