"""What `make try` shows: each scene on servers of its own, and the picture."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pinyon_try import dead_server, killed_holder, picture, stampede
from pinyon_try.__main__ import main
from pinyon_try.record import Scene
from pinyon_try.screen import Screen


def findings(scene: Scene) -> str:
    return "\n".join(line.text for line in scene.lines() if line.is_finding)


def kinds(scene: Scene) -> list[list[str]]:
    return [[bar.kind for bar in chart.bars] for chart in scene.charts]


def drawn(screen: Screen) -> list[str]:
    """The shapes of the picture. The page is one that a parser takes, and loads nothing."""
    shapes: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert not {"src", "href"} & {name for name, _ in attrs}
            shapes.append(tag)

    page = picture.page(screen.scenes)
    assert "url(" not in page
    Reader().feed(page)
    return shapes


def test_one_caller_of_forty_asks_the_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    stampede.play(screen, tmp_path)
    (scene,) = screen.scenes
    plain, leased, stale = kinds(scene)
    assert len(plain) == len(leased) == len(stale) == stampede.CALLERS
    assert plain.count("made") > 1
    assert leased.count("made") == stale.count("made") == 1
    assert "old" not in leased
    assert re.search(r"^   [.Mow-]{40}$", capsys.readouterr().out, re.MULTILINE)
    assert drawn(screen).count("rect") == 3 * stampede.CALLERS


def test_calls_go_on_while_a_server_is_dead_or_hangs(tmp_path: Path) -> None:
    screen = Screen()
    dead_server.play(screen, tmp_path)
    (scene,) = screen.scenes
    assert findings(scene).count("no error") == 5
    assert any("a caller gets ServerDown" in line.text or "ConnectError" in line.text for line in scene.lines())
    killed, hung = scene.charts
    assert [bar.kind for bar in killed.bars if bar.lane == "memcached B"] == ["up", "killed", "up"]
    assert [bar.kind for bar in hung.bars if bar.lane == "memcached B"] == ["up", "hung", "up"]
    assert any(dot.kind == "miss" for dot in killed.dots)
    assert any(dot.took >= dead_server.TIMEOUT for dot in hung.dots)
    assert drawn(screen).count("circle") == len(killed.dots) + len(hung.dots)


def test_the_lock_passes_on_when_its_holder_dies_or_hangs(tmp_path: Path) -> None:
    screen = Screen()
    killed_holder.play(screen, tmp_path, ttl=6)
    (scene,) = screen.scenes
    assert "is higher than" in findings(scene)
    assert "1 refused, 0 let through" in findings(scene)
    assert any("LockLost" in line.text for line in scene.lines())
    killed, _ = scene.charts
    dead, waits = (next(bar for bar in killed.bars if bar.kind == kind) for kind in ("locked", "waits"))
    assert waits.begin < dead.begin < dead.end == waits.end
    assert "rect" in drawn(screen)


def test_a_server_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda program, path: None)
    assert main(["lock"]) == 1
    assert "redis-server is not installed: apt-get install" in capsys.readouterr().err


def test_an_unknown_scene_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fire"])
    assert "unknown scene 'fire'" in capsys.readouterr().err
