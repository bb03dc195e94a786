"""Coverage on real retail runs (where they are at hand): whole on its own, thin across runs."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[4]
FILES = [
    ROOT.parent / "shared/data/tau_bench_retail" / f"tool-calling-l0-{model}.json"
    for model in ("4o", "4.1")
]


def load_benchmark() -> ModuleType:
    name = "cassette_coverage_benchmark"
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks/cassette_coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up here
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not all(file.exists() for file in FILES), reason="the real runs are not here")
def test_a_run_covers_itself_and_few_other_runs_and_equal_calls_have_equal_rewards() -> None:
    bench = load_benchmark()
    rules = bench.rules_of(FILES, bench.READ_WORDS)
    cassettes, refused = bench.read_runs(FILES, rules)
    assert len(cassettes) + sum(refused.values()) == 230
    own = bench.measure([bench.Pair(made, made.recording, ()) for made in cassettes], rules)
    assert own["same calls"]["share"] == own["with user turns"]["share"] == 1.0
    other = bench.measure(bench.pairs_of(cassettes), rules)
    assert 0.02 < other["same calls"]["share"] < other["in any order"]["share"] < 0.3
    assert other["in any order"]["share"] <= other["normalised"]["share"]
    assert other["with user turns"]["share"] < other["in any order"]["share"]
    assert 0.5 < other["equal prefix, same action"] < 0.9
    assert other["first miss is a read"] > 0.5
    assert other["same calls, same reward"] == 1.0
    assert other["pairs with the same calls"] >= 8
