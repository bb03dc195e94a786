"""Quotas by API key: what is refused, for how long, and what is counted."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from atdp.gateway.errors import QuotasError
from atdp.gateway.key_quotas import MAX_NAMED_KEYS, KeyQuota, KeyQuotas, read_quotas
from atdp.gateway.settings import GatewaySettings
from atdp.runtime import Home, HttpProblem, SettingsError

from .test_rate_limits import Clock


class Quotas:
    """Quotas over a clock of their own; keeps what was counted."""

    def __init__(self, default: KeyQuota, **of_keys: KeyQuota) -> None:
        self.clock = Clock()
        self.problems: set[tuple[int, str]] = set()
        self.refusals: list[tuple[str, str]] = []
        self.under_test = KeyQuotas(
            default, of_keys, lambda *refusal: self.refusals.append(refusal), clock=self.clock
        )

    def call(self, key: str = "k", body: int = 0) -> int | None:
        """Make a call; returns the seconds that a refused caller is asked to wait."""
        try:
            with self.under_test.admitted(key) as use:
                use.add_bytes(body)
        except HttpProblem as problem:
            self.problems.add((problem.status, problem.code))
            return problem.retry_after_s
        return None


def test_requests_are_limited_to_a_rate_after_a_burst_of_ten_seconds() -> None:
    quotas = Quotas(KeyQuota(requests_per_s=0.5))
    assert [quotas.call() for _ in range(6)] == [None] * 5 + [2]
    assert quotas.call("other") is None
    quotas.clock.now += 2
    assert [quotas.call(), quotas.call()] == [None, 2]
    assert quotas.refusals == [("k", "requests")] * 2
    assert quotas.problems == {(429, "quota_exceeded")}


def test_a_body_larger_than_the_quota_is_taken_and_made_up_for() -> None:
    quotas = Quotas(KeyQuota(bytes_per_s=100))
    assert quotas.call(body=5_000) is None  # the bucket holds 1,000
    wait_s = quotas.call()
    assert wait_s == 41
    quotas.clock.now += wait_s
    assert quotas.call(body=1) is None
    assert quotas.refusals == [("k", "bytes")]


def test_calls_at_work_are_limited_and_end_also_by_an_error() -> None:
    quotas = Quotas(KeyQuota(concurrent=2))
    with ExitStack() as at_work:
        for _ in range(2):
            at_work.enter_context(quotas.under_test.admitted("k"))
        assert quotas.call() == 1
        assert quotas.call("other") is None
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), quotas.under_test.admitted("k"):
            raise ZeroDivisionError
    assert quotas.call() is None
    assert quotas.refusals == [("k", "concurrent")]


def test_a_key_may_have_quotas_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "quotas.yaml"
    default = KeyQuota(requests_per_s=5, concurrent=7)
    assert read_quotas(file, default) == {}
    file.write_text("keys:\n  slow:\n    requests_per_s: 0.1\n")
    of_keys = read_quotas(file, default)
    assert of_keys == {"slow": KeyQuota(requests_per_s=0.1, concurrent=7)}
    quotas = Quotas(default, **of_keys)
    assert [quotas.call("slow"), quotas.call("slow")] == [None, 10]
    assert [quotas.call() for _ in range(51)] == [None] * 50 + [1]


@pytest.mark.parametrize(
    "text",
    [
        "keys: {a: {requests_per_s: 0}}",
        "keys: {a: {requests: 1}}",
        "keys: {a: {bytes_per_s: .inf}}",
        "quotas: {}",
        "[",
    ],
)
def test_a_file_of_quotas_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "quotas.yaml").write_text(text)
    with pytest.raises(QuotasError, match=r"quotas\.yaml"):
        read_quotas(tmp_path / "quotas.yaml", KeyQuota())


def test_the_environment_sets_the_quotas_of_all_keys(tmp_path: Path) -> None:
    home = Home(tmp_path)
    environ = {"ATDP_QUOTA_REQUESTS_PER_S": "2.5", "ATDP_QUOTA_CONCURRENT": "3"}
    settings = GatewaySettings.from_env(home, environ)
    assert settings.quota == KeyQuota(requests_per_s=2.5, concurrent=3)
    assert GatewaySettings.from_env(home, {}).quota == KeyQuota()
    for wrong in ("0", "-1", "many", "nan"):
        with pytest.raises(SettingsError, match="ATDP_QUOTA_BYTES_PER_S"):
            GatewaySettings.from_env(home, {"ATDP_QUOTA_BYTES_PER_S": wrong})


def test_metrics_name_a_bounded_number_of_keys() -> None:
    quotas = Quotas(KeyQuota(requests_per_s=0.01))
    for number in range(2 * MAX_NAMED_KEYS):
        assert [quotas.call(f"k{number}"), quotas.call(f"k{number}")] == [None, 100]
    names = {key for key, _ in quotas.refusals}
    assert names == {"other", *(f"k{number}" for number in range(MAX_NAMED_KEYS))}
