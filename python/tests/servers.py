"""Real memcached and Redis processes for the tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from pinyon_verify.ports import free_port
from waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

#: The password of the user "app", on servers with a login.
PASSWORD = "correct-horse"


class Server:
    """A server process that can be stopped and started again at the same address.

    Args:
        arguments: further command-line arguments.
        path: the Unix socket to listen on instead of a port.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.
    """

    def __init__(self, *arguments: str, path: str | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
        self.arguments = arguments
        self.path = path
        self.host = host
        self.port = 0 if path else port or free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.output: IO[bytes] | None = None

    @property
    def address(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def start(self) -> Self:
        for _ in range(5):
            self._run()
            if self._answers():
                return self
            last_words = self._last_words()
            self.stop()
            if not self.path:
                self.port = free_port()
        raise RuntimeError(f"{type(self).__name__} does not start: {last_words}")

    def restart(self) -> None:
        """Starts it again at the same address, without data."""
        self.stop()
        self._run()
        if not self._answers():
            raise RuntimeError(f"{type(self).__name__} does not start again at {self.address}: {self._last_words()}")

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        if self.output is not None:
            self.output.close()

    def pause(self) -> None:
        """Stops all its threads for a while. They have stopped when this returns."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        while any(") T " not in (thread / "stat").read_text() for thread in threads.iterdir()):
            time.sleep(0.001)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def hesitate(self) -> None:
        """Pauses it until a second after somebody has connected to it by TCP."""
        self.pause()
        threading.Thread(target=self._resume_late, daemon=True).start()

    def _resume_late(self) -> None:
        established = "01"  # so the kernel's table of sockets says it
        connected = f":{self.port:04X} {established} "
        wait_until(lambda: connected in Path("/proc/net/tcp").read_text())
        time.sleep(1)
        self.resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self) -> socket.socket:
        if self.path:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(60)
            connection.connect(self.path)
            return connection
        return socket.create_connection((self.host, self.port), timeout=60)

    def greet(self) -> None:
        """Checks that it is ready. Raises ``OSError`` if it is not yet, or if another server answers."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The command that starts it."""
        raise NotImplementedError

    def _is_asked(self, process: int) -> None:
        if self.process is None or self.process.pid != process:
            raise ConnectionError(f"process {process} has the port")

    def _run(self) -> None:
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when the server is stopped)
        self.process = subprocess.Popen(self.command(), stdout=self.output, stderr=subprocess.STDOUT)

    def _last_words(self) -> str:
        assert self.output is not None
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-1000:]

    def _answers(self) -> bool:
        process = self.process
        assert process is not None
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up and process.poll() is None:
            try:
                self.greet()
            except OSError:
                time.sleep(0.01)
            else:
                return process.poll() is None
        return False


class Memcached(Server):
    """One memcached process."""

    def greet(self) -> None:
        said = self.ask(b"version\r\n", b"\r\n")
        # A server with a login answers with an error.
        if said.startswith(b"VERSION"):
            self._is_asked(self.statistic("pid"))

    def command(self) -> list[str]:
        place = ["-s", self.path, "-a", "0777"] if self.path else ["-l", self.host, "-p", str(self.port), "-U", "0"]
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        executable = shutil.which("memcached") or "/usr/bin/memcached"
        return [executable, "-t", "2", "-m", "256", *place, *user, *self.arguments]

    def ask(self, request: bytes, end: bytes | tuple[bytes, ...]) -> bytes:
        """Sends a request on a new connection. Returns the reply, up to and including ``end``, or one of several."""
        with self.connect() as connection:
            connection.sendall(request)
            reply = b""
            while not reply.endswith(end):
                received = connection.recv(65536)
                if not received:
                    raise ConnectionError(f"memcached closed the connection after {reply!r}")
                reply += received
            return reply

    def flush(self) -> None:
        self.ask(b"flush_all\r\n", b"OK\r\n")

    def holds(self, key: str) -> bool:
        return self.ask(f"get {key}\r\n".encode(), b"END\r\n") != b"END\r\n"

    def statistic(self, name: str) -> int:
        for line in self.ask(b"stats\r\n", b"END\r\n").splitlines():
            words = line.split()
            if len(words) == 3 and words[1] == name.encode():
                return int(words[2])
        raise KeyError(name)

    def clock(self) -> float:
        """Its time of day in seconds since 1970. It differs from ours if our clock was set meanwhile."""
        return float(self.statistic("time"))

    def connections(self) -> int:
        """The number of open connections, without the one that asks."""
        states = re.findall(rb"^STAT \d+:state (\S+)", self.ask(b"stats conns\r\n", b"END\r\n"), re.MULTILINE)
        return sum(state.strip() != b"conn_listening" for state in states) - 1

    def has_connections(self, count: int, at_least: int | None = None) -> bool:
        """Whether that many connections are open, once the server has noticed recent changes.

        Args:
            at_least: a number below ``count``, if anything in between is also right.
        """
        wanted = range(count if at_least is None else at_least, count + 1)
        give_up = time.monotonic() + 60
        while self.connections() not in wanted:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        return True


class Pool:
    """A pool of servers behind a Twemproxy, at a port of its own.

    Args:
        settings: what the pool's part of the configuration says besides, in place of the defaults.
    """

    def __init__(self, *servers: Memcached, **settings: object) -> None:
        self.servers = servers
        self.settings = {"hash": "md5", "distribution": "ketama", "timeout": 30000, **settings}
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def configuration(self) -> str:
        settings = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in self.settings.items())
        servers = "".join(f"   - {server.address}:1\n" for server in self.servers)
        return f"pool_{self.port}:\n  listen: {self.address}\n{settings}  servers:\n{servers}"


class Twemproxy(Server):
    """One nutcracker process.

    Args:
        pools: each is served at its own address; the first one's is that of the proxy.
    """

    def __init__(self, *pools: Pool) -> None:
        super().__init__()
        self.pools = pools
        self.folder = tempfile.TemporaryDirectory()

    def command(self) -> list[str]:
        self.pools[0].port = self.port
        configuration = Path(self.folder.name) / "pools.yml"
        configuration.write_text("".join(pool.configuration() for pool in self.pools))
        own = ["-o", "/dev/stderr", "-p", str(Path(self.folder.name) / "pid")]
        return ["nutcracker", "-c", str(configuration), "-a", "127.0.0.1", "-s", str(free_port()), *own]

    def greet(self) -> None:
        with self.connect() as connection:
            connection.sendall(b"get greeting\r\n")
            if not connection.recv(100).endswith(b"\r\n"):
                raise ConnectionError("it is not ready")


class MemcachedProxy(Memcached):
    """memcached as a proxy of other servers.

    Args:
        executable: a memcached built with ``--enable-proxy``.
        servers: those behind it.
    """

    ROUTES = """
    function mcp_config_pools()
        return mcp.pool({ %s })
    end
    function mcp_config_routes(pool)
        local all = mcp.funcgen_new()
        local handle = all:new_handle(pool)
        all:ready({ f = function(context)
            return function(request) return context:enqueue_and_wait(request, handle) end
        end })
        mcp.attach(mcp.CMD_ANY_STORAGE, all)
    end
    """

    def __init__(self, executable: str, *servers: Memcached) -> None:
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name).chmod(0o755)
        listed = ", ".join(f'mcp.backend("b{each.port}", "{each.host}", {each.port})' for each in servers)
        self.routes = Path(self.folder.name) / "routes.lua"
        self.routes.write_text(self.ROUTES % listed)
        super().__init__("-o", f"proxy_config={self.routes}")
        self.executable = executable

    def command(self) -> list[str]:
        return [self.executable, *super().command()[1:]]


class GuardedMemcached(Memcached):
    """A memcached with a login.

    Args:
        users: a file with users and passwords that every user may read.
    """

    def __init__(self, users: Path) -> None:
        users.write_text(f"app:{PASSWORD}\nother:word\n")
        users.chmod(0o644)
        super().__init__("-Y", str(users))

    def ask(self, request: bytes, end: bytes | tuple[bytes, ...]) -> bytes:
        login = f"app {PASSWORD}".encode()
        reply = super().ask(b"set x 0 0 %d\r\n%s\r\n%s" % (len(login), login, request), end)
        return reply.removeprefix(b"STORED\r\n")


class Redis(Server):
    """A Redis process that keeps nothing on disk.

    Args:
        arguments: further command-line arguments, such as ``"--requirepass", "secret"``.
    """

    @property
    def url(self) -> str:
        return f"unix://{self.path}" if self.path else f"redis://{self.host}:{self.port}"

    def greet(self) -> None:
        said = self.ask("INFO", "server")
        # A server with a login answers with an error.
        if isinstance(said, bytes):
            self._is_asked(int(said.split(b"process_id:")[1].split()[0]))

    def command(self) -> list[str]:
        place = ["--port", "0", "--unixsocket", self.path] if self.path else ["--port", str(self.port)]
        executable = shutil.which("redis-server") or "/usr/bin/redis-server"
        # A replica would leave a file with its primary's data, and the next server in this folder would load it.
        memory_only = ["--save", "", "--appendonly", "no", "--rdb-del-sync-files", "yes"]
        return [executable, "--bind", self.host, *place, *memory_only, *self.arguments]

    def ask(self, *parts: str | int | bytes) -> Any:
        """Sends a command on a new connection. Returns the reply; an error becomes text."""
        texts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
        request = b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)
        with self.connect() as connection, connection.makefile("rb") as replies:
            connection.sendall(request)
            return _reply(replies)

    def keys(self) -> set[bytes]:
        return set(self.ask("KEYS", "*"))

    def left_behind(self) -> set[bytes]:
        """The keys of locks. With no holder and no waiter there are none, except three kinds: the counter, which
        stays, and the mark of waiters without scripts and tombstones, which expire.
        """
        return {key for key in self.keys() if not key.endswith((b":#f", b":#p")) and b":#x:" not in key}

    def calls(self) -> dict[str, int]:
        """How many times each command was carried out since the counts were reset."""
        text = self.ask("INFO", "commandstats").decode()
        counts = re.findall(r"^cmdstat_(\S+?):calls=(\d+)", text, re.MULTILINE)
        return {command: int(count) for command, count in counts}

    def clients(self) -> int:
        """The number of open connections, without the one that asks."""
        return len(self.ask("CLIENT", "LIST").splitlines()) - 1


class Sentinel(Redis):
    """A Sentinel. It keeps its configuration in a file of its own.

    Args:
        lines: lines of configuration, such as ``"sentinel monitor main 127.0.0.1 6379 1"``.
    """

    def __init__(self, *lines: str, port: int = 0) -> None:
        super().__init__(port=port)
        self.folder = Path(tempfile.mkdtemp(prefix="pinyon-sentinel-"))
        self.lines = lines

    def command(self) -> list[str]:
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "sentinel.conf"
        file.write_text("\n".join([f"port {self.port}", f"bind {self.host}", f"dir {self.folder}", *self.lines, ""]))
        return [shutil.which("redis-server") or "/usr/bin/redis-server", str(file), "--sentinel"]

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _reply(replies: BinaryIO) -> Any:
    line = replies.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, text = line[:1], line[1:-2]
    if kind in b"+-":
        return text.decode()
    if kind == b":":
        return int(text)
    if text == b"-1":
        return None
    if kind == b"$":
        return replies.read(int(text) + 2)[:-2]
    return [_reply(replies) for _ in range(int(text))]
