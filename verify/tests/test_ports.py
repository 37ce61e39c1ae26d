"""Ports are distinct even before their servers begin to listen."""

from __future__ import annotations

import socket
import subprocess
import sys

from pinyon_verify.ports import OWN_PORTS, free_port


def test_ports_are_given_once_before_they_are_given_again() -> None:
    ports = [free_port() for _ in range(OWN_PORTS // 2)]
    assert len({*ports}) == len(ports)


def test_a_port_that_is_listened_on_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        assert listener.getsockname()[1] not in {free_port() for _ in range(2 * OWN_PORTS)}


def test_another_process_has_other_ports() -> None:
    program = "from pinyon_verify.ports import free_port; print(free_port())"
    other = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert other // OWN_PORTS != free_port() // OWN_PORTS


def test_a_port_is_free_again_once_its_server_has_closed_its_connections() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as listener:
        client = socket.create_connection(("127.0.0.1", port))
        listener.accept()[0].close()
        client.close()
    assert port in {free_port() for _ in range(OWN_PORTS)}


def test_a_process_whose_ports_are_all_in_use_is_told() -> None:
    program = """
import socket
from pinyon_verify.ports import free_port
servers = []
while True:
    servers.append(socket.create_server(("127.0.0.1", free_port())))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert f"RuntimeError: this process has servers on all of its {OWN_PORTS} ports" in done.stderr
