"""Ports that a home keeps between runs."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from atdp.stack.errors import HomeUnusable, PortTaken
from atdp.stack.ports import KeptPorts, choose_free_port, is_free, is_listening, listeners


def test_a_port_once_chosen_is_kept(tmp_path: Path) -> None:
    first = KeptPorts(tmp_path / "ports.json").claim("gateway", "governance")
    assert KeptPorts(tmp_path / "ports.json").claim("governance", "gateway") == first
    assert len(set(first.values())) == 2


def test_a_kept_port_in_use_is_an_error_that_names_port_owner_and_file(tmp_path: Path) -> None:
    ports = KeptPorts(tmp_path / "ports.json")
    port = ports.claim("gateway")["gateway"]
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen(1)
        assert is_listening(port)
        with pytest.raises(PortTaken, match=rf"{port}.*gateway.*ports\.json"):
            ports.claim("gateway")
    assert ports.claim("gateway") == {"gateway": port}


@pytest.mark.parametrize(
    ("local", "state", "user", "found"),
    [
        ("0100007F:733E", "0A", 1000, [1000]),
        ("0000000000000000FFFF00000100007F:733E", "0A", 1000, [1000]),
        ("00000000000000000000000000000000:733E", "0A", 1001, [1001]),
        ("0200007F:733E", "0A", 1001, []),
        ("0100007F:733E", "01", 1001, []),
        ("0100007F:733F", "0A", 1001, []),
    ],
    ids=["IPv4", "IPv6", "all addresses", "another address", "a connection", "another port"],
)
def test_the_user_who_listens_on_a_port_is_known(
    local: str, state: str, user: int, found: list[int]
) -> None:
    table = f"sl\n 0: {local} 00000000:0000 {state} 0:0 00:0 00000000 {user} 0 5 1\n"
    assert list(listeners(table, 0x733E)) == found


def test_a_server_of_another_user_is_not_taken_for_the_own_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have taken the port while the own server starts, and would get its passwords."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_listening(port)
        monkeypatch.setattr("os.getuid", lambda: 12345)
        assert not is_listening(port)


def test_chosen_ports_avoid_those_the_system_gives_to_outgoing_connections() -> None:
    port = choose_free_port()
    assert port < 32_768
    assert is_free(port)


def test_two_stacks_that_start_at_the_same_time_do_not_choose_the_same_port() -> None:
    port = choose_free_port()
    choose = (
        f"from atdp.stack import ports; ports._RANGE = range({port}, {port + 1}); "
        "ports.choose_free_port()"
    )
    other = subprocess.run(
        [sys.executable, "-c", choose], capture_output=True, text=True, check=False
    )
    assert is_free(port)  # nobody listens yet
    assert f"No free port between {port}" in other.stderr
    release = choose.replace(
        "ports.choose", "ports._reserve = lambda port: True; ports.choose"
    )  # the guard off
    subprocess.run([sys.executable, "-c", release], check=True)


def test_a_damaged_port_file_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("[1, 2]")
    with pytest.raises(HomeUnusable, match="Remove it"):
        KeptPorts(tmp_path / "ports.json").claim("gateway")
