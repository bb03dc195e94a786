"""Rating links: made, used, changed, refused."""

import base64
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from atdp.gateway.feedback import rating_page
from atdp.gateway.feedback.rating_link import LinkUnusable, RatingLink
from atdp.schemas import Event, Feedback

from .conftest import EngineUnderTest, GatewayUnderTest, error_of, start_gateway
from .fake_engine import completion
from .serving import TLS

SECRET = b"s" * 32
LINK = RatingLink("acme", "t", 0, None, None, None, None, "0" * 12, 2_000_000_000)


def link_to(gateway: GatewayUnderTest, session: str = "s1", **fields: Any) -> str:
    """Open a session and return the URL of a link to it."""
    with gateway.http() as client:
        client.post("/v1/sessions", json={"session_id": session})
        made = client.post("/v1/feedback/links", json={"session_id": session, **fields})
    assert made.status_code == 201
    url = made.json()["url"]
    assert isinstance(url, str)
    return url


def get(url: str) -> httpx.Response:
    return httpx.get(url, verify=TLS, timeout=60)


def answer(url: str, once: str | None = None, **fields: str) -> httpx.Response:
    """Send the form of the page at a URL, as a browser does."""
    form = {"once": once or once_of(get(url)), **fields}
    return httpx.post(url, data=form, verify=TLS, timeout=60)


def once_of(page: httpx.Response) -> str:
    found = re.search(r'name="once" value="(\w+)"', page.text)
    assert found
    return found[1]


def feedback_of(gateway: GatewayUnderTest) -> list[Event]:
    return [event for event in gateway.events() if isinstance(event.body, Feedback)]


def test_a_person_rates_on_the_page_and_changes_their_mind(gateway: GatewayUnderTest) -> None:
    url = link_to(gateway, actor="ann", dimension="tone")
    page = get(url)
    assert page.status_code == 200
    assert feedback_of(gateway) == []  # a preview of the link says nothing
    once = once_of(page)
    first = answer(url, once, thumbs="down", comment="too slow\r\n<b>sorry</b>")
    assert first.status_code == 200
    assert "Thank you" in first.text
    assert first.headers["x-atdp-events"] == "2"  # the start of the session, and the feedback
    answer(url, once, thumbs="down", comment="too slow\r\n<b>sorry</b>")  # sent twice
    answer(url, once_of(first), thumbs="up")
    events = feedback_of(gateway)
    assert len({event.event_id for event in events}) == 2
    bodies = [event.body for event in events if isinstance(event.body, Feedback)]
    assert bodies[0].text == "too slow\n<b>sorry</b>"
    assert [body.value for body in bodies] == [0.0, 0.0, 1.0]
    assert len({body.actor for body in bodies}) == 1  # one person
    assert {body.dimension for body in bodies} == {"tone"}


def test_the_page_loads_nothing_and_runs_nothing(gateway: GatewayUnderTest) -> None:
    url = link_to(gateway)
    for page in (get(url), answer(url, thumbs="up"), get(url + "x")):
        assert page.headers["content-security-policy"].startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"
        assert "set-cookie" not in page.headers
        assert not re.search(r"<script|src=|href=|url\(|http|action=| on\w+=", page.text)
        assert '<html lang="en">' in page.text


def test_a_page_shows_nothing_that_was_sent(gateway: GatewayUnderTest) -> None:
    url = link_to(gateway)
    marker = "<script>alert(1)</script>"
    answers = [
        answer(url, thumbs="up", comment=marker),
        answer(url, once=marker, thumbs=marker),
        get(url + marker),
    ]
    assert all("alert" not in page.text for page in answers)


def test_a_link_is_to_its_target(gateway: GatewayUnderTest) -> None:
    with gateway.http(**{"X-ATDP-Rating-Link": "1"}) as client:
        request = {"model": "m", "messages": [{"role": "user", "content": completion("r1")}]}
        called = client.post("/v1/chat/completions", json=request)
        made = client.post("/v1/feedback/links", json={"response_id": "r1"})
    answer(made.json()["url"], thumbs="up")
    answer(called.headers["x-atdp-rating-link"], thumbs="up")
    bodies = [event.body for event in feedback_of(gateway) if isinstance(event.body, Feedback)]
    assert [body.target_kind for body in bodies] == ["event", "trajectory"]
    assert {event.trajectory_id for event in feedback_of(gateway)} == {
        called.headers["x-atdp-trajectory"]
    }
    with gateway.http() as client:  # who does not ask gets none
        assert "x-atdp-rating-link" not in client.post("/v1/chat/completions", json=request).headers


def test_ten_thousand_tokens_that_were_not_made_here_are_no_links() -> None:
    token = LINK.token(SECRET)
    assert RatingLink.read(token, SECRET) == LINK
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    forged = [
        *(token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
          for place in range(len(token))),
        *(token[:length] for length in range(len(token))),
        base64.urlsafe_b64encode(raw.replace(b"acme", b"evil")).rstrip(b"=").decode(),
        token + "=", token + "A", token + "AAAA", f" {token}", token * 100, "", "é", "\x00",
        LINK.token(b"t" * 32),
    ]  # fmt: skip
    forged += [secrets.token_urlsafe(120) for _ in range(10_000 - len(forged))]
    for each in forged:
        with pytest.raises(LinkUnusable):
            RatingLink.read(each, SECRET)


def test_ten_thousand_links_are_all_different_from_each_other_and_take_no_memory() -> None:
    links = [
        RatingLink("acme", f"t{number}", 0, None, None, None, None, "0" * 12, 2_000_000_000)
        for number in range(10_000)
    ]
    tokens = [link.token(SECRET) for link in links]
    assert len(set(tokens)) == 10_000
    assert [RatingLink.read(token, SECRET) for token in tokens] == links


def test_a_forged_link_gives_a_page_that_says_so(gateway: GatewayUnderTest) -> None:
    url = link_to(gateway)
    base = url.rpartition("/")[0]
    for token in (url.rpartition("/")[2][:-2] + "AA", "x", "%00", "..%2F..%2Fv1", "é" * 40):
        for page in (get(f"{base}/{token}"), answer(f"{base}/{token}", "1", thumbs="up")):
            assert page.status_code == 404
    assert "not valid" in get(base + "/x").text
    assert feedback_of(gateway) == []


def test_an_expired_link_and_one_of_a_revoked_key_record_nothing(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = link_to(gateway, expires_in_s=60)
    once = once_of(get(url))
    assert answer(url, once, thumbs="up").status_code == 200
    later = datetime.now(UTC) + timedelta(seconds=61)
    monkeypatch.setattr(rating_page, "utc_now", lambda: later)
    assert get(url).status_code == 410
    replayed = answer(url, once, thumbs="up")
    assert replayed.status_code == 410
    assert "has expired" in replayed.text
    monkeypatch.undo()
    assert get(url).status_code == 200
    gateway.keys.revoke(gateway.agent_key[len("atdp_") :].partition("_")[0])
    assert get(url).status_code == 410
    assert answer(url, once, thumbs="down").status_code == 410
    assert len(feedback_of(gateway)) == 1


def test_a_form_that_the_page_does_not_send_is_refused_on_a_page(
    gateway: GatewayUnderTest,
) -> None:
    url = link_to(gateway)
    refused: list[tuple[dict[str, str], int]] = [
        ({}, 422),
        ({"thumbs": "sideways"}, 422),
        ({"thumbs": "up", "once": "a\nb"}, 422),
        ({"thumbs": "up", "comment": "a\x00b"}, 422),
        ({"thumbs": "up", "comment": "x" * 2_001}, 413),
        ({"thumbs": "up", "comment": "x" * 5_000_000}, 413),
        ({"thumbs": "up", **{f"f{number}": "x" for number in range(20)}}, 422),
    ]
    for fields, status in refused:
        page = answer(url, **{"once": "1", **fields})
        assert page.status_code == status
        assert page.headers["content-type"].startswith("text/html")
    assert feedback_of(gateway) == []


def test_an_answer_of_full_length_in_any_script_is_taken(gateway: GatewayUnderTest) -> None:
    comment = "界" * 1_999 + "\r\n"
    assert answer(link_to(gateway), thumbs="up", comment=comment).status_code == 200


def test_an_answer_that_kafka_did_not_take_can_be_sent_again(gateway: GatewayUnderTest) -> None:
    url = link_to(gateway)
    once = once_of(get(url))
    gateway.log.available = False
    assert answer(url, once, thumbs="up").status_code == 503
    gateway.log.available = True
    assert answer(url, once, thumbs="up").status_code == 200
    assert len({event.event_id for event in feedback_of(gateway)}) == 1


def test_one_person_cannot_flood_through_many_links(
    gateway: GatewayUnderTest, engine: EngineUnderTest
) -> None:
    with start_gateway(gateway.home, gateway.log, engine.url, feedback_per_person=2) as url:
        tokens = [
            link_to(gateway, session, actor="ann").rpartition("/")[2]
            for session in ("s1", "s2", "s3")
        ]
        pages = [answer(f"{url}/rate/{token}", "1", thumbs="down") for token in tokens]
    assert [page.status_code for page in pages] == [200, 200, 429]
    assert int(pages[-1].headers["retry-after"]) > 0


def test_a_link_needs_a_sensible_life(gateway: GatewayUnderTest) -> None:
    with gateway.http() as client:
        client.post("/v1/sessions", json={"session_id": "s"})
        for life in (0, 59, 90 * 86_400 + 1, 3600.5, "3600", True, None):
            body = {"session_id": "s", "expires_in_s": life}
            made = client.post("/v1/feedback/links", json=body)
            assert (made.status_code, "'expires_in_s'" in error_of(made)) == (422, True)


def test_a_link_says_when_it_ends_and_is_under_the_public_url(
    gateway: GatewayUnderTest, engine: EngineUnderTest
) -> None:
    with start_gateway(
        gateway.home, gateway.log, engine.url, public_url="https://rate.example.com"
    ) as url:
        link_to(gateway)
        made = httpx.post(
            f"{url}/v1/feedback/links",
            json={"session_id": "s1", "expires_in_s": 3600},
            headers={"Authorization": f"Bearer {gateway.agent_key}", "Host": "evil.example"},
            verify=TLS,
        ).json()
    assert made["url"].startswith("https://rate.example.com/rate/")
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
