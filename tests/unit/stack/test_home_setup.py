"""A new home: what it holds before anything has started."""

from datetime import UTC, datetime
from pathlib import Path

from atdp.gateway.price_book import PriceBookFile
from atdp.runtime import Home
from atdp.schemas import Usage
from atdp.stack.home_setup import prepare_home


def test_a_new_home_has_a_price_for_every_model_and_keeps_those_of_its_owner(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    prepare_home(home)
    cost = PriceBookFile(home.prices_file).cost(
        ("orderdesk",), Usage(input_tokens=7, output_tokens=3), datetime.now(UTC)
    )
    assert cost is not None
    assert (cost.amount, cost.currency, cost.price_id) == (0.0, "USD", "*@2026-01-01")
    home.prices_file.write_text("prices: []\n")
    prepare_home(home)
    assert home.prices_file.read_text() == "prices: []\n"
