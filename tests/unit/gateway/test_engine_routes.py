"""The routing table: the share of a canary."""

from atdp.gateway.engine_routes import CanaryShare, EngineRoute, Routes


def test_shares_are_kept_and_a_session_always_falls_the_same_way() -> None:

    routes = Routes(
        stable=EngineRoute(url="a"),
        canary=CanaryShare(engine=EngineRoute(url="b"), share=0.2, salt="s"),
    )
    chosen = [routes.choose("acme", f"session {n}")[0] for n in range(5000)]
    assert chosen == [routes.choose("acme", f"session {n}")[0] for n in range(5000)]
    assert 0.17 < chosen.count("canary") / 5000 < 0.23
