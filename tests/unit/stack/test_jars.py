"""The broker's jars: exactly the locked files, whatever the network delivers."""

import hashlib
import re
from pathlib import Path

import pytest

from atdp.stack.broker.jars import Jar, cache_dir, ensure_jars, locked_jars, maven_fetch
from atdp.stack.errors import JarsUnavailable

CONTENT = {"a": b"first jar", "b": b"second jar"}
JARS = tuple(
    Jar(
        group="org.example",
        artifact=name,
        version="1",
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    for name, data in CONTENT.items()
)


class Repository:
    """Serves files like a Maven repository; counts what was asked for."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.asked: list[str] = []

    def __call__(self, jar: Jar, staging: Path) -> Path:
        self.asked.append(jar.artifact)
        file = staging / jar.filename
        file.write_bytes(self.content[jar.artifact])
        return file


def test_jars_are_fetched_once_and_then_found_in_the_cache(tmp_path: Path) -> None:
    repository = Repository(CONTENT)
    paths = ensure_jars(tmp_path, jars=JARS, fetch=repository)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert ensure_jars(tmp_path, jars=JARS, fetch=repository) == paths
    assert repository.asked == ["a", "b"]


def test_a_damaged_jar_in_the_cache_is_fetched_anew(tmp_path: Path) -> None:
    repository = Repository(CONTENT)
    paths = ensure_jars(tmp_path, jars=JARS, fetch=repository)
    paths[1].write_bytes(b"s3cond jar")  # same length
    ensure_jars(tmp_path, jars=JARS, fetch=repository)
    assert repository.asked == ["a", "b", "b"]
    assert paths[1].read_bytes() == CONTENT["b"]


def test_a_jar_with_another_hash_than_the_locks_never_enters_the_cache(tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable, match=r"b-1\.jar arrived with SHA-256"):
        ensure_jars(tmp_path, jars=JARS, fetch=Repository({**CONTENT, "b": b"evil twins"}))
    assert [path.name for path in tmp_path.rglob("*.jar")] == ["a-1.jar"]


def test_progress_counts_only_what_has_to_be_fetched(tmp_path: Path) -> None:
    ensure_jars(tmp_path, jars=JARS[:1], fetch=Repository(CONTENT))
    seen: list[tuple[str, int, int]] = []
    ensure_jars(
        tmp_path,
        jars=JARS,
        fetch=Repository(CONTENT),
        progress=lambda jar, done, of: seen.append((jar.artifact, done, of)),
    )
    assert seen == [("b", 0, 1)]


def test_a_cache_folder_that_cannot_be_written_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JarsUnavailable, match="set XDG_CACHE_HOME"):
        ensure_jars(tmp_path / "file" / "cache", jars=JARS, fetch=Repository(CONTENT))


def test_without_network_the_error_says_what_to_check(tmp_path: Path) -> None:
    with pytest.raises(
        JarsUnavailable, match=r"a-1\.jar.*Check the network and HTTPS_PROXY.*ATDP_MAVEN_REPOSITORY"
    ):
        ensure_jars(
            tmp_path,
            jars=JARS,
            fetch=maven_fetch({"ATDP_MAVEN_REPOSITORY": "http://127.0.0.1:9/maven"}),
        )


def test_the_lock_holds_one_broker_of_one_version_with_full_hashes() -> None:
    jars = locked_jars()
    assert len({(jar.group, jar.artifact) for jar in jars}) == len(jars) == 44
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {"4.4.0"}
    assert "kafka-tools-api" not in {jar.artifact for jar in jars}
    assert (
        len(
            {
                jar.version
                for jar in jars
                if jar.artifact in {"log4j-core", "log4j-api", "log4j-slf4j-impl"}
            }
        )
        == 1
    )


def test_the_cache_follows_the_users_setting() -> None:
    assert cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/atdp/jars")
    assert cache_dir({}) == Path.home() / ".cache/atdp/jars"
