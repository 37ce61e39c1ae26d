"""Plays a container file: what each of its instructions says, in fresh folders."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .place import Place, export


@dataclass
class Stage:
    """What one FROM begins.

    Args:
        name: that later stages copy from it by.
        place: where it is played.
        folder: where its commands run.
        user: who runs them.
        command: what the finished container starts, with its arguments.
    """

    name: str
    place: Place
    folder: str = "/"
    user: int = 0
    command: list[str] = field(default_factory=list)


def play(file: Path) -> Iterator[tuple[str, str]]:
    """Plays a container file of Debian. Yields each instruction and what it prints, and then what the container prints.

    Raises `CalledProcessError` if a command fails, and `ValueError` for an instruction that cannot be played.
    """
    stages: list[Stage] = []
    try:
        for instruction in instructions(file.read_text()):
            yield instruction, obey(instruction, stages)
        last = stages[-1]
        yield "", last.place.run(shlex.join(last.command), folder=last.folder, user=last.user)
    finally:
        for stage in stages:
            stage.place.remove()


def instructions(text: str) -> list[str]:
    """Returns the instructions of a container file, each on one line."""
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return [line for line in re.sub(r"\s*\\\n\s*", " ", lines).splitlines() if line.strip()]


def obey(instruction: str, stages: list[Stage]) -> str:
    """Does what an instruction says; returns what it prints."""
    verb, _, rest = instruction.partition(" ")
    if verb == "FROM":
        if not re.match(r"debian:12(?:-slim)?(?: AS \w+)?$", rest):
            raise ValueError(f"there is no {rest} here")
        name = rest.partition(" AS ")[2] or str(len(stages))
        stages.append(Stage(name, Place(f"stage-{name}")))
        return ""
    stage = stages[-1]
    if verb == "RUN":
        return stage.place.run(rest, folder=stage.folder)
    if verb == "WORKDIR":
        stage.folder = rest
        return stage.place.run(f"mkdir -p {rest}", folder="/")
    if verb == "USER":
        stage.user = int(rest)
    elif verb in ("ENTRYPOINT", "CMD"):
        stage.command += json.loads(rest)
    elif verb == "COPY":
        copy(rest.split(), stage, stages)
    else:
        raise ValueError(f"nothing here obeys {instruction}")
    return ""


def copy(words: list[str], stage: Stage, stages: list[Stage]) -> None:
    """Copies between stages, or what is committed of the checkout."""
    if words[0] == ".":
        return export(stage.place.path / "changes" / stage.folder.lstrip("/"))
    origin, source, target = words[0].removeprefix("--from="), words[1], words[2]
    (before,) = (each for each in stages if each.name == origin)
    inside = before.place.path / "changes" / source.lstrip("/")
    shutil.copytree(inside, stage.place.path / "changes" / target.lstrip("/"), dirs_exist_ok=True)
