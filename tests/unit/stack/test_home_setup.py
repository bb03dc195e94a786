"""A new home: what it holds before anything has started."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from atdp.gateway.price_book import PriceBookFile
from atdp.runtime import Home, KeyStore
from atdp.schemas import Usage
from atdp.stack.home_setup import outdated_keys, prepare_home


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


def test_keys_of_an_earlier_version_are_named_until_they_are_rotated_or_revoked(
    tmp_path: Path,
) -> None:
    """The operator's and the recorder's keys are made anew without a question."""
    home = Home(tmp_path)
    prepare_home(home)
    with KeyStore(home.keys_db) as keys:
        ids = [keys.create("acme", role)[1].key_id for role in ("agent", "analyst")]
        with closing(sqlite3.connect(home.keys_db)) as database, database:
            database.execute("UPDATE keys SET public_key = NULL")
        assert outdated_keys(home) == ids
        keys.rotate(ids[0], overlap_us=0)
        assert outdated_keys(home) == ids[1:]
        keys.revoke(ids[1])
    assert outdated_keys(home) == []
