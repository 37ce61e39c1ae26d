"""``pinyon locks servers`` and ``pinyon check`` with Sentinels, clusters and replicas, as users type them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clusters import Cluster
from pinyon_verify.ports import free_port
from servers import Redis
from test_locks_sentinels import Watched, watched
from waiting import GIVES_UP, wait_until

__all__ = ["watched"]

Check = subprocess.CompletedProcess[str]


def pinyon(*arguments: str) -> Check:
    command = [sys.executable, "-m", "pinyon", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def servers(url: str, *more: str) -> Check:
    return pinyon("locks", "servers", "--url", url, "--timeout", "30", *more)


def check(url: str, timeout: float = 30) -> Check:
    return pinyon("check", "--timeout", str(timeout), url)


def is_linked(replica: Redis) -> bool:
    return b"master_link_status:up" in replica.ask("INFO", "replication")


def know_each_other(service: Watched) -> bool:
    """Whether the Sentinels know each other, and the replica."""
    said = [sentinel.ask("SENTINEL", "MASTER", "main") for sentinel in service.sentinels]
    pairs = [dict(zip(fields[::2], fields[1::2])) for fields in said]
    others = str(len(service.sentinels) - 1).encode()
    return all(each[b"num-other-sentinels"] == others and each[b"num-slaves"] == b"1" for each in pairs)


@pytest.fixture
def service(watched: Callable[..., Watched]) -> Watched:
    """A primary, a replica and three Sentinels."""
    service = watched(count=3)
    wait_until(lambda: is_linked(service.replica) and know_each_other(service))
    return service


def test_sentinels_primary_and_replica(service: Watched) -> None:
    done = servers(service.url)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    said = f"primary {service.primary.address}, 2 other Sentinels, quorum 2"
    assert lines[:3] == [[sentinel.address, said] for sentinel in service.sentinels]
    version = lines[3][2]
    assert version.startswith("redis ")
    assert lines[3] == [service.primary.address, "primary", version, "has the locks; 1 replica"]
    assert lines[4][:3] == [service.replica.address, "replica", version]
    assert lines[4][3].startswith(f"of {service.primary.address}, link up, ")
    assert lines[5:] == [[f"namespace pinyon: on {service.primary.address}"]]
    found = json.loads(servers(service.url, "--json").stdout)
    assert (found["kind"], found["service"], found["primary"]) == ("sentinels", "main", service.primary.address)
    assert [each["primary"] for each in found["sentinels"]] == [service.primary.address] * 3
    assert [each["role"] for each in found["servers"]] == ["primary", "replica"]


def test_a_service_that_is_well(service: Watched) -> None:
    done = check(service.url)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    together = ", ".join(sentinel.address for sentinel in service.sentinels)
    assert lines[0] == f"ok       {together}: 3 of 3 Sentinels name {service.primary.address} as the primary of 'main'"
    assert lines[1].startswith(f"ok       {service.primary.address}: redis ")
    assert lines[1].endswith(" answers and locks")
    assert lines[2].startswith(f"warning  {service.primary.address}: has no append-only file")
    assert len(lines) == 3, lines


def test_too_few_sentinels_answer(service: Watched) -> None:
    first, second, third = service.sentinels
    second.stop()
    done = check(service.url)
    assert done.returncode == 0
    assert f"warning  {second.address}: this Sentinel names no primary: cannot connect" in done.stdout
    assert f"2 of 3 Sentinels name {service.primary.address}" in done.stdout
    third.stop()
    done = check(service.url, 2)
    assert done.returncode == 1
    assert f"error    {third.address}: this Sentinel names no primary: cannot connect" in done.stdout
    assert "no majority of the Sentinels names the same primary of 'main'" in done.stdout
    done = servers(service.url)
    assert done.returncode == 1
    assert "namespace pinyon: no server has its locks now" in done.stdout
    assert first.address in done.stdout


def test_sentinels_that_disagree(service: Watched, redis_with: Callable[..., Redis]) -> None:
    another = redis_with()
    first, second, third = service.sentinels
    for sentinel in (second, third):
        assert sentinel.ask("SENTINEL", "REMOVE", "main") == "OK"
    assert second.ask("SENTINEL", "MONITOR", "main", another.host, another.port, 2) == "OK"
    done = check(service.url, 2)
    assert done.returncode == 1
    votes = f"{first.address} names {service.primary.address}; {second.address} names {another.address}"
    assert f"the Sentinels disagree: {votes}" in done.stdout
    assert f"{third.address}: this Sentinel names no primary: does not know the service 'main'" in done.stdout


def test_a_url_that_does_not_name_all_sentinels(service: Watched) -> None:
    first, second, third = sorted(service.sentinels, key=lambda each: each.address)
    done = check(f"redis+sentinel://{first.address}/main")
    assert done.returncode == 0
    assert "the URL names 1 of the Sentinels, and locks need a majority" in done.stdout
    assert f"add {second.address}, {third.address}" in done.stdout


def test_a_replica_that_lost_its_primary_and_a_primary_without_replicas(
    service: Watched, watched: Callable[..., Watched]
) -> None:
    nobody = free_port()
    service.replica.ask("REPLICAOF", "127.0.0.1", nobody)
    # The Sentinels correct it after some seconds.
    done = check(service.url, 5)
    assert f"{service.replica.address}: has no connection to its primary 127.0.0.1:{nobody}" in done.stdout
    lonely = watched(count=1)
    lonely.replica.stop()
    done = check(lonely.url)
    assert "locks need a majority of those: run three, and name them all" in done.stdout


def test_a_replica_named_as_the_server(redis_with: Callable[..., Redis]) -> None:
    primary = redis_with()
    replica = redis_with("--replicaof", primary.host, str(primary.port), "--repl-diskless-sync-delay", "0")
    wait_until(lambda: is_linked(replica))
    done = check(replica.url)
    assert done.returncode == 0
    says = f"is a replica of {primary.address}, which clients follow: name the primary, or its Sentinels"
    assert f"warning  {replica.address}: {says}" in done.stdout
    assert f"ok       {primary.address}: redis " in done.stdout
    done = servers(replica.url)
    assert done.returncode == 0
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[:2]] == [[primary.address, "primary"], [replica.address, "replica"]]
    assert lines[2] == [f"namespace pinyon: on {primary.address}"]


def test_a_user_without_permissions_is_told_the_remedy(redis_with: Callable[..., Redis]) -> None:
    server = redis_with()
    server.ask("ACL", "SETUSER", "u", "on", ">secret", "~other:*", "&*", "+@all")
    done = check(server.url.replace("//", "//u:secret@"))
    assert done.returncode == 1
    assert "the user may not use the namespace's keys" in done.stdout
    assert "permit the keys ~{pinyon}:*" in done.stdout
    assert "secret" not in done.stdout


def test_nobody_at_the_address() -> None:
    port = free_port()
    done = check(f"redis://127.0.0.1:{port}", GIVES_UP)
    assert done.returncode == 1
    assert done.stdout.count("cannot connect") == 1
    done = servers(f"redis://127.0.0.1:{port}", "--timeout", str(GIVES_UP))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith(f"127.0.0.1:{port}\tunknown\tunknown\tcannot connect: ")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        cluster.add_replica("127.0.0.4", folder, cluster.nodes[0])
        wait_until(lambda: is_linked(cluster.nodes[3]))
        yield cluster


def url_of(*nodes: Redis) -> str:
    return f"redis+cluster://{','.join(node.address for node in nodes)}"


def test_the_nodes_of_a_cluster(cluster: Cluster) -> None:
    slot, holder = cluster.slot("pinyon"), cluster.node_of("pinyon")
    for url in (url_of(*cluster.nodes[:2]), cluster.nodes[1].url):
        done = servers(url)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert sorted(line[0] for line in lines[:4]) == sorted(node.address for node in cluster.nodes)
        (locking,) = (line for line in lines[:4] if "has the locks" in line[3])
        assert locking[0] == holder.address
        assert sum("546" in line[3] and "slots" in line[3] for line in lines[:4]) == 3
        assert lines[3][1] == "replica"
        assert lines[4] == [f"namespace pinyon: slot {slot}, on {holder.address}"]
        found = json.loads(servers(url, "--json").stdout)
        assert (found["kind"], found["slot"], found["missing"]) == ("cluster", slot, [])


def test_a_cluster_with_what_it_lacks(cluster: Cluster) -> None:
    done = check(url_of(*cluster.nodes))
    assert done.returncode == 0, done.stdout
    holder = cluster.node_of("pinyon")
    assert f"slot {cluster.slot('pinyon')}, that of the namespace, is on {holder.address}" in done.stdout
    assert f"ok       {holder.address}: redis " in done.stdout
    assert done.stdout.count("no replica follows this primary") == 2
    nobody = f"127.0.0.1:{free_port()}"
    done = check(f"{url_of(*cluster.nodes)},{nobody}")
    assert done.returncode == 0
    assert f"warning  {nobody}: cannot connect" in done.stdout


def test_slots_that_are_missing_and_nodes_that_disagree() -> None:
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        slot, holder = cluster.slot("pinyon"), cluster.node_of("pinyon")
        for node in cluster.nodes:
            node.ask("CLUSTER", "DELSLOTS", 0 if slot else 1)
        done = check(url_of(*cluster.nodes), 2)
        assert done.returncode == 1
        assert f"no node has the slots {0 if slot else 1}, so the cluster may refuse" in done.stdout
        other = cluster.another(holder)
        asked_of = other.ask("CLUSTER", "MYID").decode()
        other.ask("CLUSTER", "SETSLOT", slot, "NODE", asked_of)
        done = servers(url_of(*cluster.nodes))
        if done.returncode:  # The nodes settle this soon.
            both = ", ".join(sorted([holder.address, other.address]))
            assert f"slot {slot}, the nodes do not agree: {both}" in done.stdout


def test_a_terminal_shows_a_table(redis: Redis) -> None:
    from command_line import Terminal

    terminal = Terminal("servers", url=redis.url, columns=120)
    assert terminal.end() == 0
    for word in ("SERVER", "ROLE", "VERSION", "STATE", "primary", "has the locks", "namespace pinyon"):
        assert word in terminal.shown


def test_the_survey_reads_what_servers_write() -> None:
    from pinyon._survey import _nodes, _ranges

    text = (
        "a 10.0.0.1:7000@17000,host myself,master - 0 0 1 connected 0-2 5 [7->-b]\n"
        "b :7001@17001 master - 0 0 2 connected 3\n"
        "c :0@0 slave,noaddr b 0 0 2 disconnected\n"
        "d 10.0.0.4:7003@17003 handshake - 0 0 0 connected"
    )
    nodes: dict[str, Any] = _nodes(text, "asked:1")
    assert {name: (node.address, sorted(node.slots)) for name, node in nodes.items()} == {
        "a": ("asked:1", [0, 1, 2, 5]),
        "b": ("asked:1", [3]),
    }
    assert _ranges([0, 1, 2, 5, 7, 8]) == ["0-2", "5", "7-8"]


def test_a_quorum_says_who_votes_and_whether_that_is_enough() -> None:
    with contextlib.ExitStack() as stack:
        three = [stack.enter_context(Redis()) for _ in range(3)]
        url = " ".join(each.url for each in three)
        young = check(url)
        assert "may have forgotten locks: it has a vote in" in young.stdout
        wait_until(lambda: "3 of 3 servers have a vote, and a lock needs 2" in servers(url).stdout)
        assert servers(url).returncode == 0
        told = json.loads(servers(url, "--json").stdout)
        assert (told["kind"], told["primary"]) == ("quorum", None)
        assert [each["votes_in"] for each in told["servers"]] == [0, 0, 0]
        checked = check(url)
        assert checked.returncode == 0, checked.stdout
        assert "lock together" in checked.stdout
        three[0].stop()
        assert check(url).returncode == 0, "two are enough"
        three[1].stop()
        said, checked = servers(url), check(url)
        assert (said.returncode, checked.returncode) == (1, 1)
        assert "no lock can be held now" in said.stdout
        assert "1 of 3 servers have a vote; a lock needs 2" in checked.stdout
