"""A name with several addresses, each of them a server. Only the test's processes can resolve it, by a hosts file of
their own.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from models import MODELS
from servers import Memcached

HERE = Path(__file__).parent
#: Runs a program with the files of a folder, `$0`, in place of the machine's.
WITH_HOSTS = 'for file in hosts nsswitch.conf; do mount --bind "$0/$file" /etc/$file || exit; done; exec "$@"'
UNSHARE = ["unshare", "--map-root-user", "--mount"]


def may_have_own_hosts() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "sh", "-c", WITH_HOSTS, "/etc", "true"], check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may_have_own_hosts(), reason="a mount namespace is not permitted here")

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from models import MODELS
import pinyon

hosts, port = Path({hosts!r}), {port}
model = next(model for model in MODELS if model.name == {model!r})
keys = [f"key:{{number}}" for number in range(100)]
values = {{key: f"value of {{key}}" for key in keys}}

def resolve(*addresses):
    hosts.write_text("".join(f"{{address}} cache.example\\n" for address in addresses))

async def scenario():
    resolve("127.0.0.1", "127.0.0.2")
    events = []
    settings = dict(discovery="dns", discovery_interval=0.1, timeout=30, connect_timeout=30, on_event=events.append)
    client = model.client([f"cache.example:{{port}}"], **settings)
    assert await client.set_many(values) == []
    assert [line.split()[0] for line in client.describe()] == [f"127.0.0.1:{{port}}", f"127.0.0.2:{{port}}"]
    resolve("127.0.0.3", "127.0.0.2", "127.0.0.1", "::1")
    while len(client.describe()) == 2:
        await client.get("key:0")
        await model.sleep(0.01)
    assert [line.split()[0] for line in client.describe()] == [f"127.0.0.{{last}}:{{port}}" for last in (1, 2, 3)]
    kept = await client.get_many(keys)
    assert 40 < len(kept) < 90, len(kept)
    assert await client.set_many(values) == []
    resolve()
    while "discovery" not in [event.kind for event in events]:
        assert await client.get_many(keys) == values
        await model.sleep(0.01)
    lost = next(event for event in events if event.kind == "discovery")
    assert lost.server == f"cache.example:{{port}}" and "does not resolve" in str(lost.error), lost
    client.close()
    other = model.client([f"cache.example:{{port}}"], **settings)
    try:
        await other.get("key:0")
    except pinyon.ConnectError as error:
        assert "check that it is spelled right" in str(error) and error.server == f"cache.example:{{port}}", error
    else:
        raise AssertionError("a name that does not resolve raised nothing")
    resolve("127.0.0.1", "127.0.0.2", "127.0.0.3")
    assert await model.eventually(lambda: other.get_many(keys)) == values
    other.close()

model.run(scenario())
print("done")
"""


@pytest.fixture
def three() -> Iterator[int]:
    """The port of three servers with different addresses."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Memcached())
        for host in ("127.0.0.2", "127.0.0.3"):
            stack.enter_context(Memcached(host=host, port=first.port))
        yield first.port


@pytest.mark.parametrize("model", [model.name for model in MODELS])
def test_servers_follow_the_addresses_of_a_name(three: int, tmp_path: Path, model: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("")
    (tmp_path / "nsswitch.conf").write_text("hosts: files\n")
    program = PROGRAM.format(here=str(HERE), hosts=str(hosts), port=three, model=model)
    command = [*UNSHARE, "sh", "-c", WITH_HOSTS, str(tmp_path), sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
