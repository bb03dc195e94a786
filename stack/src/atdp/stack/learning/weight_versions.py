"""The versions of one model in the weight registry, as the decision loop reads them."""

from collections.abc import Mapping
from dataclasses import dataclass

from atdp.control import Manifest, read_manifest
from atdp.runtime import Home
from atdp.trainer import WeightRegistry


@dataclass(frozen=True, slots=True)
class RegistryVersions:
    """`PublishedVersions` of the home's weight registry."""

    home: Home
    model: str

    def published_by(self, run: str) -> list[str]:
        """See `PublishedVersions`."""
        published = WeightRegistry(self.home.weights).all_published_by(self.model, run)
        return [each.version for each in published]

    def ages(self) -> Mapping[str, int]:
        """See `PublishedVersions`."""
        return WeightRegistry(self.home.weights).generations(self.model)

    def manifest(self, version: str) -> Manifest:
        """See `PublishedVersions`."""
        return read_manifest(self.home.weights, self.model, version)
