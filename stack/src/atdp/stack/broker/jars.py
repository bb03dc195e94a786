"""The broker's jars: exactly the files of `kafka_jars.toml`, by coordinates and SHA-256.

jgo serves as a plain Maven client that fetches one artifact at a time; it resolves no dependencies.
A jar is fetched into a staging folder, hashed, and only then renamed into the user's cache. So the
cache never holds a wrong file, even when two processes fill it at once or a download is cut off.
Cached jars are hashed again at every start (43 MB, about 0.1 s); a damaged one is fetched again.
"""

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from atdp.runtime import file_sha256
from atdp.stack.broker.java import find_java
from atdp.stack.errors import JarsUnavailable, StackError

REPOSITORY_VARIABLE = "ATDP_MAVEN_REPOSITORY"
Progress = Callable[["Jar", int, int], None]
Fetch = Callable[["Jar", Path], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One line of the lock file."""

    group: str
    artifact: str
    version: str
    bytes: int
    sha256: str

    @property
    def filename(self) -> str:
        """`artifact-version.jar`."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def relative_path(self) -> Path:
        """The path of the file in a Maven repository."""
        return Path(*self.group.split("."), self.artifact, self.version, self.filename)


def locked_jars() -> tuple[Jar, ...]:
    """Return the jars of this package's lock file, in its order."""
    lock = tomllib.loads(
        files("atdp.stack.broker").joinpath("kafka_jars.toml").read_text(encoding="utf-8")
    )
    return tuple(Jar(**row) for row in lock["jar"])


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_CACHE_HOME/atdp/jars`, by default `~/.cache/atdp/jars`."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "atdp" / "jars"


def ensure_jars(
    cache: Path,
    *,
    jars: tuple[Jar, ...] | None = None,
    fetch: Fetch | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the paths of all locked jars; fetch the missing ones first.

    `progress(jar, done, total)` is called before each fetch (`done` fetched so far, `total` to
    fetch).

    Raises:
        JarsUnavailable: a jar cannot be fetched, or the cache cannot be written.
    """
    wanted = locked_jars() if jars is None else jars
    missing = [jar for jar in wanted if not _is_intact(cache / jar.relative_path, jar)]
    if missing:
        _fetch_all(missing, cache, fetch or maven_fetch(os.environ), progress)
    return [cache / jar.relative_path for jar in wanted]


def _fetch_all(missing: list[Jar], cache: Path, fetch: Fetch, progress: Progress | None) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _staging_folder(cache) as staging:
            for done, jar in enumerate(missing):
                if progress is not None:
                    progress(jar, done, len(missing))
                _install(jar, fetch(jar, staging), cache)
    except OSError as error:
        raise JarsUnavailable(
            f"Cannot write the jar cache {cache}: {error.strerror or error}. "
            "Free some space or set XDG_CACHE_HOME."
        ) from error


@contextmanager
def _staging_folder(cache: Path) -> Iterator[Path]:
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=cache))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _install(jar: Jar, fetched: Path, cache: Path) -> None:
    sha256 = file_sha256(fetched)
    if sha256 != jar.sha256:
        raise JarsUnavailable(
            f"{jar.filename} arrived with SHA-256 {sha256}, the lock file has {jar.sha256}; "
            "it is not used. A proxy or mirror may have changed it. "
            f"Try another network, or set {REPOSITORY_VARIABLE} to a mirror you trust."
        )
    target = cache / jar.relative_path
    target.parent.mkdir(parents=True, exist_ok=True)
    fetched.replace(target)


def maven_fetch(environ: Mapping[str, str]) -> Fetch:
    """Return a function that fetches a jar from the public Maven repository or from a mirror.

    `ATDP_MAVEN_REPOSITORY` names the mirror.
    """
    mirror = environ.get(REPOSITORY_VARIABLE)

    def fetch(jar: Jar, staging: Path) -> Path:
        from jgo.maven import MavenContext
        from requests import RequestException

        remotes = {"mirror": mirror.rstrip("/")} if mirror else None
        context = MavenContext(repo_cache=staging, local_repos=[], remote_repos=remotes, timeout=60)
        try:
            artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
            return Path(artifact.resolve())
        except (RequestException, RuntimeError) as error:
            where = f"from {mirror}" if mirror else "from the Maven repository"
            raise JarsUnavailable(
                f"Cannot fetch {jar.filename} {where}: {type(error).__name__}. Check the network "
                f"and HTTPS_PROXY, or set {REPOSITORY_VARIABLE} to the address of a mirror. "
                "Then run `make setup` again."
            ) from error

    return fetch


def _is_intact(path: Path, jar: Jar) -> bool:
    try:
        return path.stat().st_size == jar.bytes and file_sha256(path) == jar.sha256
    except OSError:
        return False


def main() -> int:
    """Fetch missing jars and check that there is a Java: the last step of `make setup`."""
    cache = cache_dir(os.environ)
    try:
        java = find_java(os.environ)
        paths = ensure_jars(cache, progress=_announce)
    except StackError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"Java {java.major} at {java.executable}, {len(paths)} jars in {cache}\n")
    return 0


def _announce(jar: Jar, done: int, total: int) -> None:
    sys.stdout.write(f"fetching the broker's jars {done + 1}/{total}: {jar.filename}\n")


if __name__ == "__main__":
    sys.exit(main())
