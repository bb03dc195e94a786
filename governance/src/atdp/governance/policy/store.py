"""The policies of a home: the files of `policies/`, read again when they change.

The first start fills a missing directory with the default policy. After that the directory is the
only source of policies. A tenant that no file applies to has no policy, and its events are
quarantined. A file that cannot be used halts the governance stage until it is corrected, because
the stage must not assume that the previous rules still apply.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import yaml

from atdp.governance.errors import PolicyError
from atdp.governance.policy.compiled import CompiledPolicy, compile_policy
from atdp.governance.policy.document import (
    ANY_TENANT,
    GRANTED,
    WITHDRAWN,
    ConsentDocument,
    ConsentTerms,
    PolicyDocument,
    TenantTerms,
    parse_policy,
)
from atdp.runtime import write_durably

_POLICY_SUFFIXES: Final = frozenset({".yaml", ".yml"})


def default_policy_text() -> str:
    """Return the default policy as YAML."""
    return (
        resources.files("atdp.governance")
        .joinpath("default_policy.yaml")
        .read_text(encoding="utf-8")
    )


def install_default_policy(folder: Path) -> Path:
    """Write `default.yaml` into a policies directory that does not exist yet.

    An existing directory is left unchanged. Returns the path of `default.yaml`.
    """
    target = folder / "default.yaml"
    if not folder.exists():
        folder.mkdir(parents=True)
        write_durably(target, default_policy_text())
    return target


def set_consent(folder: Path, tenant: str, *, train: str) -> Path:
    """Record a tenant's consent to training (`granted` or `withdrawn`) in `consent.yaml`.

    The governance stage reads the file before its next transaction. Returns the path of the file.

    Raises:
        PolicyError: `train` is another word, or the existing file cannot be read.
    """
    if train not in {GRANTED, WITHDRAWN}:
        raise PolicyError(f"consent is {GRANTED!r} or {WITHDRAWN!r}, not {train!r}")
    target = folder / "consent.yaml"
    register: dict[str, TenantTerms] = {}
    if target.exists():
        existing = parse_policy(target.read_text("utf-8"), where=str(target))
        if not isinstance(existing, ConsentDocument):
            raise PolicyError(f"{target} is not of kind Consent; move it away first")
        register.update(existing.tenants)
    before = register.get(tenant, TenantTerms())
    register[tenant] = before.model_copy(update={"consent": ConsentTerms(train=train)})
    document = ConsentDocument(apiVersion="atdp.governance/v1", kind="Consent", tenants=register)
    install_default_policy(folder)
    write_durably(
        target, yaml.safe_dump(document.model_dump(mode="json", exclude_none=True), sort_keys=False)
    )
    return target


class PolicyStore:
    """The compiled policies of one directory, by tenant."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: Mapping[str, bytes] | None = None
        self._by_tenant: Mapping[str, CompiledPolicy] = {}
        self._register: Mapping[str, TenantTerms] = {}
        self._compiled: dict[str, CompiledPolicy] = {}

    def refresh(self) -> bool:
        """Read the directory again if a file was changed, added or removed.

        Returns whether that was so.

        Raises:
            PolicyError: a file cannot be used. The store then has no policies at all until a
                refresh succeeds.
        """
        files = self._read()
        if files == self._files:
            return False
        self._files, self._by_tenant, self._register = None, {}, {}
        documents = [
            parse_policy(_text(content, self._folder / name), where=str(self._folder / name))
            for name, content in files.items()
        ]
        self._register = _merged([each for each in documents if isinstance(each, ConsentDocument)])
        by_tenant: dict[str, CompiledPolicy] = {}
        for document in documents:
            if isinstance(document, PolicyDocument):
                self._assign(document, by_tenant)
        self._by_tenant, self._files = by_tenant, files
        return True

    def policy_for(self, tenant: str) -> CompiledPolicy | None:
        """Return the policy that names the tenant, else the one for all tenants, else None."""
        return self._by_tenant.get(tenant) or self._by_tenant.get(ANY_TENANT)

    def terms_of(self, tenant: str) -> TenantTerms:
        """Return the tenant's terms in the register of consent; its policy is not consulted."""
        return self._register.get(tenant, TenantTerms())

    def _assign(self, document: PolicyDocument, by_tenant: dict[str, CompiledPolicy]) -> None:
        """Compile a policy and enter it under each of its tenants."""
        compiled = self._compile(document)
        for tenant in document.applies_to.tenants:
            if tenant in by_tenant:
                raise PolicyError(
                    f"{self._folder}: the policies {by_tenant[tenant].id} and {compiled.id} "
                    f"both apply to tenant {tenant!r}; name it in one of them only"
                )
            by_tenant[tenant] = compiled

    def _compile(self, document: PolicyDocument) -> CompiledPolicy:
        # Kept by content, so that a change of consent does not empty the caches of the scanners.
        compiled = self._compiled.get(document.content_hash)
        if compiled is None:
            compiled = self._compiled[document.content_hash] = compile_policy(document)
        return compiled

    def _read(self) -> Mapping[str, bytes]:
        # The contents are compared, not the times: that costs a few kilobytes per transaction and
        # detects two changes within one clock tick.
        try:
            files = sorted(
                path for path in self._folder.iterdir() if path.suffix in _POLICY_SUFFIXES
            )
            return {path.name: path.read_bytes() for path in files}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PolicyError(
                f"cannot read the policies in {self._folder}: {error.strerror}"
            ) from error


def _text(content: bytes, where: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{where} is not UTF-8 text") from error


def _merged(registers: list[ConsentDocument]) -> Mapping[str, TenantTerms]:
    merged: dict[str, TenantTerms] = {}
    for register in registers:
        for tenant, terms in register.tenants.items():
            if tenant in merged:
                raise PolicyError(
                    f"the consent of tenant {tenant!r} is given in two files; keep one"
                )
            merged[tenant] = terms
    return merged
