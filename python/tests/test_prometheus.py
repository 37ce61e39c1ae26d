"""The export to Prometheus: what a scrape shows, and that the documented queries select it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from models import Model, every_model
from prometheus_client.parser import text_string_to_metric_families
from servers import Memcached, Redis
from waiting import PATIENT

import pinyon
from pinyon._figures import caches, locks
from pinyon.prometheus import Collector

Connect = Callable[..., Any]


class Scrape:
    """What Prometheus reads."""

    def __init__(self, collector: Collector) -> None:
        registry = prometheus_client.CollectorRegistry()
        registry.register(collector)  # type: ignore[arg-type]
        families = text_string_to_metric_families(prometheus_client.generate_latest(registry).decode())
        self.samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Returns the value of the only series with this name and these labels, among others."""
        (found,) = [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return float(found)


def of(client: Any) -> Any:
    """Returns a client of the package."""
    return getattr(client, "wrapped", client)


@every_model
async def test_a_scrape_shows_what_is_counted(model: Model, connect: Connect, server: Memcached) -> None:
    cache = connect(server)
    await cache.set("key", 1)
    await cache.get_many(["key", *map(str, range(99))])
    collector = Collector(of(cache), of(cache.using(on_failure="miss")))
    shown = Scrape(collector)
    get = {"server_address": server.host, "server_port": str(server.port), "db_operation_name": "get"}
    assert shown.value("pinyon_client_commands_total", **get, pinyon_outcome="hit") == 1
    assert shown.value("pinyon_client_commands_total", **get, pinyon_outcome="miss") == 99
    assert shown.value("pinyon_client_retries_total", **get) == 0
    assert shown.value("pinyon_client_server_up", db_system_name="memcached") == 1
    metrics = of(cache).metrics()[server.address]
    assert shown.value("pinyon_client_io_bytes_total", network_io_direction="transmit") == metrics.bytes_sent
    latencies, duration = metrics.command("get").latencies, "pinyon_client_command_duration_seconds"
    assert shown.value(f"{duration}_bucket", **get, le="+Inf") == latencies.count
    assert shown.value(f"{duration}_count", **get) == latencies.count
    assert shown.value(f"{duration}_sum", **get) == pytest.approx(latencies.total)
    await cache.get("key")
    assert Scrape(collector).value("pinyon_client_commands_total", **get, pinyon_outcome="hit") == 2


def test_clients_are_added_up_and_forgotten(server: Memcached) -> None:
    first, second = pinyon.Client(server.address), pinyon.Client(server.address)
    registry = prometheus_client.CollectorRegistry()
    collector = Collector(first, registry=registry)
    collector.add(second)
    first.get("a")
    second.get("b")
    labels = {"db_system_name": "memcached", "server_address": server.host, "server_port": str(server.port)}
    labels |= {"db_operation_name": "get", "pinyon_outcome": "miss"}
    assert registry.get_sample_value("pinyon_client_commands_total", labels) == 2
    del second
    assert registry.get_sample_value("pinyon_client_commands_total", labels) == 1
    del first
    assert list(registry.collect()) == []


def test_locks_have_figures_too(redis: Redis) -> None:
    with pinyon.Locks(redis.url, **PATIENT) as taken:
        with taken.lock("a"):
            pass
        shown = Scrape(Collector(taken))
    assert shown.value("pinyon_locks_attempts_total", pinyon_outcome="acquired") == 1
    assert shown.value("pinyon_locks_released_total", db_system_name="redis") == 1
    assert shown.value("pinyon_locks_acquire_duration_seconds_count") == 1


def test_what_is_no_client_is_refused() -> None:
    both = pinyon.migrating(pinyon.Client("127.0.0.1:1"), pinyon.Client("127.0.0.1:2"))
    with pytest.raises(pinyon.UsageError, match="of a migrating client its old and its new one"):
        Collector(both)


def test_the_documented_queries_select_what_is_collected(server: Memcached, repository: Path) -> None:
    with pinyon.Client(server.address) as cache, pinyon.Client("127.0.0.1:1", on_failure="miss") as failing:
        cache.get("key")
        failing.get("key")
        series = {sample.name for sample in Scrape(Collector(cache, failing)).samples}
    page = (repository / "docs" / "observability.md").read_text()
    queries = re.findall(r"```promql\n(.*?)```", page, flags=re.DOTALL)
    named = {name for query in queries for name in re.findall(r"\b(?:pinyon|db_client)_\w+(?=[\[{])", query)}
    assert len(named) >= 4
    assert named <= series


@pytest.mark.parametrize("figures", [caches.FIGURES, locks.FIGURES], ids=["caches", "locks"])
def test_the_page_lists_every_figure(figures: Any, repository: Path) -> None:
    page = (repository / "docs" / "observability.md").read_text()
    for figure in figures:
        name = f"{figure.name}.bucket" if figure.kind == "histogram" else figure.name
        assert f"`{name}`" in page
