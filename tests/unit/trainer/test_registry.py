"""The weight registry: whole versions, unique names, lineage, and tampering seen."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atdp.trainer.errors import RegistryError
from atdp.trainer.registry import Lineage, Published, WeightRegistry
from atdp.trainer.trajectory import TrajectoryKey


def publish(registry: WeightRegistry, parent: str | None = None, content: str = "w") -> Published:
    def write(path: Path) -> None:
        (path / "model.safetensors").write_text(content)

    return registry.publish("desk", write, Lineage(run_id="r", kind="grpo", parent=parent))


def test_versions_are_numbered_in_order_and_know_their_parents(tmp_path: Path) -> None:
    registry = WeightRegistry(tmp_path)
    publish(registry)
    for _ in range(10):
        publish(registry, parent=registry.versions("desk")[-1])
    assert registry.versions("desk") == [f"v{n}" for n in range(1, 12)]
    assert [p.version for p in registry.lineage("desk", "v3")] == ["v3", "v2", "v1"]


def test_age_is_counted_along_the_lineage_so_rejected_candidates_do_not_age_the_data(
    tmp_path: Path,
) -> None:
    registry = WeightRegistry(tmp_path)
    for parent in (None, "v1", "v1", "v1", "v4"):
        publish(registry, parent=parent)
    assert registry.generations("desk") == {"v1": 0, "v2": 1, "v3": 1, "v4": 1, "v5": 2}


def test_a_changed_file_is_noticed_and_an_untouched_version_verifies(tmp_path: Path) -> None:
    registry = WeightRegistry(tmp_path)
    version = publish(registry)
    assert registry.verify("desk", "v1").manifest["sha256"].keys() == {
        "model.safetensors",
        "trained_on.parquet",
    }
    (version.path / "model.safetensors").write_text("other")
    with pytest.raises(RegistryError, match="differs from what was published"):
        registry.verify("desk", "v1")


def test_a_version_tells_what_its_run_trained_on(tmp_path: Path) -> None:
    registry = WeightRegistry(tmp_path)
    used = {
        TrajectoryKey("acme", "t1", 0): "refund",
        TrajectoryKey("acme", "t1", 1): "refund",
        TrajectoryKey("globex", "t1", 0): None,
    }
    registry.publish(
        "desk", lambda _: None, Lineage(run_id="r", kind="sft", parent=None, trained_on=used)
    )
    version = registry.get("desk", "v1")
    assert version.trained_on == used
    assert version.manifest["trajectories_used"] == 3
    (version.path / "trained_on.parquet").unlink()
    with pytest.raises(RegistryError, match="was trained on cannot be read"):
        _ = version.trained_on


def test_a_failed_publication_leaves_no_version_and_no_rest(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        (path / "half").write_text("x")
        raise RuntimeError("disk full")

    registry = WeightRegistry(tmp_path)
    with pytest.raises(RuntimeError):
        registry.publish("desk", fail, Lineage(run_id="r", kind="sft", parent=None))
    assert registry.versions("desk") == []
    assert list((tmp_path / "desk").iterdir()) == []


def test_an_unknown_version_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    registry = WeightRegistry(tmp_path)
    publish(registry)
    with pytest.raises(RegistryError, match=r"no version 'v7'.*published: v1"):
        registry.get("desk", "v7")


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden"])
def test_a_model_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RegistryError, match="model name"):
        WeightRegistry(tmp_path).publish(
            name, lambda _: None, Lineage(run_id="r", kind="sft", parent=None)
        )


def test_a_name_taken_by_another_process_in_between_is_skipped(tmp_path: Path) -> None:
    registry, other = WeightRegistry(tmp_path), WeightRegistry(tmp_path)

    class Slow(WeightRegistry):
        def versions(self, model: str) -> list[str]:
            known = super().versions(model)
            if not known:
                publish(other)  # after this one has looked, before it renames
                return []
            return known

    with ThreadPoolExecutor(1):
        assert other.versions("desk") == []
        (tmp_path / "desk").mkdir()
        taken = Slow(tmp_path)
        partial = tmp_path / "desk" / ".partial-x"
        partial.mkdir()
        (partial / "model.safetensors").write_text("mine")
        published = taken._publish_as_next(
            tmp_path / "desk", partial, "desk", Lineage(run_id="r", kind="sft", parent=None)
        )
    assert published.version == "v2"
    assert registry.versions("desk") == ["v1", "v2"]
