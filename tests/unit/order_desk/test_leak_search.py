"""The search for raw values behind governance."""

import pyarrow as pa

from order_desk.leak_search import search, strings_of


def test_a_planted_value_is_found_where_it_was_left_and_counted_once_per_place() -> None:
    places = [("clean", [b"nothing", b"here"]), ("leaky", [b"call 0123456", b"again 0123456"])]
    report = search(places, {"0123456", "other"})
    assert report.raw_values_left == 1
    assert report.left == {"leaky": 1}
    assert report.bytes_searched == {"clean": 11, "leaky": 25}


def test_the_search_reads_strings_at_any_depth_of_a_column() -> None:
    rows = [{"messages": [{"parts": [{"text": "secret-1"}]}], "name": "secret-2", "count": 3}, None]
    texts = b" ".join(strings_of(pa.array(rows)))
    assert b"secret-1" in texts
    assert b"secret-2" in texts


def test_the_search_reads_dictionary_encoded_columns() -> None:
    assert b"secret" in b"".join(strings_of(pa.array(["secret", "secret"]).dictionary_encode()))
