"""The rules files of a home: `rewards/<tenant>.yaml`, and `rewards/default.yaml` for all others."""

import contextlib
from pathlib import Path

from atdp.rewards.errors import RulesError
from atdp.rewards.rules_file import DEFAULT_RULES, RewardRules, parse_rules
from atdp.runtime import write_durably

_DEFAULT = "default"


class RulesStore:
    """Reads rules files; a file that did not change is not read again."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`; the default rules are written into it when it does not exist yet."""
        self._folder = folder
        self._read: dict[Path, tuple[tuple[int, int, int], RewardRules]] = {}
        if not folder.exists():
            write_durably(folder / f"{_DEFAULT}.yaml", DEFAULT_RULES)

    def rules_of(self, tenant: str) -> RewardRules | None:
        """Return the rules of a tenant; None where there is no file for it.

        Raises:
            RulesError: the tenant's file cannot be read or is wrong.
        """
        for name in (tenant, _DEFAULT):
            file = self._folder / f"{name}.yaml"
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise RulesError(f"cannot read {file}: {error}") from error
            return self._rules(file, (stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return None

    def sources(self) -> frozenset[str]:
        """Return the sources of evidence that any usable file names."""
        sources: set[str] = set()
        for file in self._folder.glob("*.yaml"):
            with contextlib.suppress(RulesError):
                rules = self.rules_of(file.stem)
                sources |= set() if rules is None else rules.sources
        return frozenset(sources)

    def _rules(self, file: Path, stamp: tuple[int, int, int]) -> RewardRules:
        known = self._read.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RulesError(f"cannot read {file}: {error}") from error
        rules = parse_rules(text, where=str(file))
        self._read[file] = (stamp, rules)
        return rules
