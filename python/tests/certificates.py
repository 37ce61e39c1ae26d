"""Certificates that the tests make, and servers that present them."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import trustme
from servers import Memcached, Redis, Server

LONG_AGO = {"not_before": datetime(2020, 1, 1), "not_after": datetime(2020, 2, 1)}
FAR_AHEAD = {"not_before": datetime(2190, 1, 1), "not_after": datetime(2190, 2, 1)}


@dataclass(frozen=True)
class Shown:
    """A certificate: its file, and its key's."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates, and keeps them in files of a directory that every user may read."""

    def __init__(self, directory: Path, name: str) -> None:
        self.ca = trustme.CA(organization_name=name)
        self.directory = directory
        self.name = name
        self.file = self._write("ca", self.ca.cert_pem)

    def issue(self, *names: str, **dates: datetime) -> Shown:
        issued = self.ca.issue_cert(*names, **dates)
        name = "-".join(name.replace(":", "_") for name in names) + (f"-{dates['not_after']:%Y}" if dates else "")
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        key = self._write(f"{name}-key", issued.private_key_pem)
        return Shown(self._write(name, trustme.Blob(chain)), key)

    def own(self) -> Shown:
        """The certificate that signs the others."""
        return Shown(self.file, self._write("ca-key", self.ca.private_key_pem))

    def _write(self, name: str, pem: trustme.Blob) -> Path:
        path = self.directory / f"{self.name}-{name}.pem"
        pem.write_to_path(str(path))
        path.chmod(0o644)
        return path


class Secured(Server):
    """A server that speaks TLS. With ``clients``, it accepts only clients with a certificate of that authority."""

    def secure(self, shown: Shown, clients: Authority | None = None) -> None:
        self.shown, self.clients = shown, clients
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        if clients is not None:
            own = clients.issue("tests.internal")
            self.context.load_cert_chain(own.certificate, own.key)

    def connect(self) -> socket.socket:
        return self.context.wrap_socket(super().connect())


class SecureMemcached(Secured, Memcached):
    def __init__(self, shown: Shown, clients: Authority | None = None, *arguments: str, **settings: Any) -> None:
        self.secure(shown, clients)
        options = f"ssl_chain_cert={shown.certificate},ssl_key={shown.key}"
        if clients is not None:
            options += f",ssl_verify_mode=2,ssl_ca_cert={clients.file}"
        super().__init__("-I", "32m", "-Z", "-o", options, *arguments, **settings)


class SecureRedis(Secured, Redis):
    def __init__(self, shown: Shown, clients: Authority | None = None, *arguments: str, **settings: Any) -> None:
        self.secure(shown, clients)
        wants = ["--tls-ca-cert-file", str(clients.file)] if clients else ["--tls-auth-clients", "no"]
        files = ["--tls-cert-file", str(shown.certificate), "--tls-key-file", str(shown.key)]
        super().__init__(*files, *wants, *arguments, **settings)

    @property
    def url(self) -> str:
        return f"rediss://{self.address}"

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--port")
        return [*command[:at], "--port", "0", "--tls-port", *command[at + 1 :]]
