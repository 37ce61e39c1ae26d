"""Where a Redis or Valkey server is, as people write it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pinyon.errors import InvalidServers

_SHAPES = "write redis://[user[:password]@]host[:port][/database], rediss:// for TLS, or unix:///path[?db=database]"


class Place(NamedTuple):
    """A server, and as whom to log in there."""

    #: For messages: without the password.
    server: str
    host: str | None
    port: int
    path: str | None
    user: str | None
    password: str | None
    database: int
    tls: bool = False


def parse_url(url: str) -> Place:
    """Read a URL. Raises ``InvalidServers`` for one that makes no sense; the message never has the password."""
    if not isinstance(url, str):
        raise InvalidServers(f"a server's URL is text, not {type(url).__qualname__}; {_SHAPES}")
    if url.startswith("/"):
        return Place(url, None, 0, url, None, None, 0)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidServers(f"the server's URL is malformed: {_without_login(error)}; {_SHAPES}") from None
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    query = parse_qs(parts.query, keep_blank_values=True)
    databases = query.pop("db", [])
    if query:
        raise InvalidServers(f"the server's URL has a setting that is not known: {', '.join(query)}; {_SHAPES}")
    if parts.scheme == "unix":
        if not parts.path:
            raise InvalidServers(f"the server's URL has no path; {_SHAPES}")
        path = unquote(parts.path)
        return Place(path, None, 0, path, user, password, _database(databases[-1] if databases else ""))
    if parts.scheme not in ("redis", "rediss"):
        raise InvalidServers(f"the server's URL begins with {parts.scheme or 'nothing'}, not redis or unix; {_SHAPES}")
    host = parts.hostname or "127.0.0.1"
    port = 6379 if port is None else port
    if port == 0:
        raise InvalidServers("the server's URL has port 0; ports are 1 to 65535")
    shown = f"[{host}]" if ":" in host else host
    in_path = parts.path.lstrip("/")
    database = _database(in_path or "".join(databases[-1:]))
    return Place(f"{shown}:{port}", host, port, None, user, password, database, parts.scheme == "rediss")


def _database(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 31:
        raise InvalidServers(f"the server's URL has the database {text!r}, which is no number; {_SHAPES}")
    return int(text)


def _without_login(error: ValueError) -> str:
    """Leave out what a parser repeats of the URL: there may be a password in it."""
    return "its port is no number from 1 to 65535" if "Port" in str(error) else "it cannot be read"
