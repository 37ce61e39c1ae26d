"""Every block of every page is what it claims to be, and every link leads somewhere."""

from __future__ import annotations

import ast
import contextlib
import doctest
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, SecureMemcached, SecureRedis
from endpoint import Endpoint
from pages import GUIDES, PAGES, REPOSITORY, Block, anchors, blocks, links
from programs import Programs
from servers import Memcached, Redis

import pinyon
import pinyon.aio
from pinyon._native import DEFAULT_SETTINGS
from pinyon.cli.arguments import parse

DEFAULT = "127.0.0.1:11211"
DEFAULT_REDIS = "127.0.0.1:6379"

#: Whole programs with side effects. test_examples.py and test_locks_documentation.py run them.
PROGRAMS = {path.read_text() for path in (REPOSITORY / "docs" / "examples").glob("*.py")}

BLOCKS = [block for page in PAGES for block in blocks(page)]


def those_in(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_block_says_what_it_is() -> None:
    """A block of text is output or a drawing. The tests of locks check SQL, Ruby's and Perl's tests run those and use
    YAML, the tests of the C interface compile C, and the tests below check all other blocks."""
    known = {"python", "ruby", "perl", "c", "sh", "diff", "json", "yaml", "sql", "promql", "text"}
    assert {block.name for block in BLOCKS if block.language not in known and block.page in GUIDES} == set()
    assert all(those_in(language) for language in known)


@pytest.fixture(scope="module")
def places(memcached: Memcached, redis_of_all: Redis, certificates: Path) -> Iterator[dict[str, str]]:
    """The tests' servers, by their addresses on the pages. The files of the page on TLS are in one folder."""
    authority = Authority(certificates, "documented")
    here, own, users = authority.issue("127.0.0.1"), authority.issue("client"), certificates / "users-documented"
    for name, file in {"ca.pem": authority.file, "client.pem": own.certificate, "client-key.pem": own.key}.items():
        (certificates / name).write_bytes(file.read_bytes())
    users.write_text("app:correct-horse\n")
    users.chmod(0o644)
    with contextlib.ExitStack() as stack:
        found, other = stack.enter_context(Memcached()), stack.enter_context(Memcached())
        yield {
            DEFAULT: memcached.address,
            DEFAULT_REDIS: redis_of_all.address,
            "my-cache.abcdef.cfg.use1.cache.amazonaws.com:11211": stack.enter_context(Endpoint([found])).address,
            "memcached.default.svc.cluster.local:11211": f"localhost:{found.port}",
            "cache1.internal:11211": stack.enter_context(SecureMemcached(here)).address,
            "cache2.internal:11211": stack.enter_context(SecureMemcached(here, None, "-Y", str(users))).address,
            "127.0.0.1:11212": other.address,
            "localhost:11211": f"localhost:{other.port}",
            "locks.internal:6380": stack.enter_context(SecureRedis(here)).address,
        }


@pytest.fixture(scope="module")
def dictionaries(certificates: Path) -> None:
    """Those of the page on compression, made as it says."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        samples.mkdir()
        for number in range(1000):
            (samples / str(number)).write_text(json.dumps({"number": number, "name": f"user {number * 7919}"}))
        (command,) = [block.source for block in those_in("sh") if block.source.startswith("zstd")]
        subprocess.run(["bash", "-ec", command], cwd=folder, capture_output=True, check=True, timeout=500)
        shutil.copy(f"{folder}/users-2.zdict", certificates / "users-2.zdict")
        subprocess.run(
            ["bash", "-ec", command.replace("2", "1")], cwd=folder, capture_output=True, check=True, timeout=120
        )
        shutil.copy(f"{folder}/users-1.zdict", certificates / "users-1.zdict")


@pytest.fixture(scope="module")
def programs(places: dict[str, str], certificates: Path, dictionaries: None) -> Iterator[Programs]:
    environment = {**os.environ, "MEMCACHE_SERVERS": places[DEFAULT], "REDIS_URL": f"redis://{places[DEFAULT_REDIS]}"}
    with Programs(certificates, environment) as programs:
        yield programs


def placed(source: str, places: dict[str, str]) -> str:
    """The source with the tests' servers in place of its own."""
    return re.sub("|".join(map(re.escape, places)), lambda name: places[name.group()], source)


@pytest.mark.parametrize(
    "block", [block for block in those_in("python") if block.source not in PROGRAMS], ids=lambda block: block.name
)
def test_a_block_runs_by_itself_and_twice(
    block: Block, programs: Programs, places: dict[str, str], server: Memcached, redis: Redis, tmp_path: Path
) -> None:
    program = tmp_path / block.module
    program.write_text(placed(block.source, places))
    for time in ("first", "second"):
        status, printed = programs.run(program)
        assert status == 0, f"{block.name}, the {time} time:\n{printed}"


def test_the_first_page_prints_what_it_says(
    programs: Programs, places: dict[str, str], server: Memcached, redis: Redis, tmp_path: Path
) -> None:
    page = REPOSITORY / "docs" / "five-minutes.md"
    expected, lines = [], []
    for block in blocks(page):
        if block.language == "python":
            program = tmp_path / block.module
            program.write_text(placed(block.source, places))
            lines += programs.run(program)[1].splitlines()
            expected += re.findall(r"^ *print\(.*\) +# (.+?)(?: \(.*\))?$", block.source, re.MULTILINE)
    assert len(expected) >= 6
    assert [text for text in expected if text not in lines] == []


def test_a_block_that_needs_another_or_fails_the_second_time_is_found(
    programs: Programs, tmp_path: Path, places: dict[str, str], server: Memcached
) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('so far')\ncache.get('a')\n")
    status, printed = programs.run(program)
    assert status == 1
    assert "so far" in printed
    assert "NameError: name 'cache' is not defined" in printed
    once = "import pinyon\nassert pinyon.Client('127.0.0.1:11211').add('once', 1)\n"
    program.write_text(placed(once, places))
    assert [programs.run(program)[0] for _ in range(2)] == [0, 1]


#: Packages without types of their own, or with types that lack what their decorators add (dogpile.cache).
UNTYPED = (
    "aiocache",
    "azure",
    "botocore",
    "celery",
    "django",
    "dogpile",
    "flask_caching",
    "flask_session",
    "gevent",
    "google",
)


def test_the_blocks_are_typed(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    for block in those_in("python"):
        (folder / block.module).write_text(block.source)
    settings = "".join(
        f"[mypy-{package}.*]\nignore_missing_imports = True\nfollow_imports = skip\n" for package in UNTYPED
    )
    # mypy cannot know what their decorators return.
    pages = ",".join(block.module[:-3] for block in those_in("python") if any(name in block.source for name in UNTYPED))
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\n{settings}[mypy-{pages}]\ndisallow_untyped_decorators = False\n"
    )
    command = [sys.executable, "-m", "mypy", "--scripts-are-modules", "--no-error-summary", "--cache-dir"]
    command += [str(tmp_path / "cache"), "--config-file", str(tmp_path / "mypy.ini"), *map(str, folder.iterdir())]
    done = subprocess.run(command, cwd=REPOSITORY / "python", capture_output=True, text=True, check=False, timeout=500)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell block, each in its words."""
    lines = block.source.replace("\\\n", " ").splitlines()
    # The assignments before a command are the shell's.
    split = (shlex.split(re.sub(r"^(\w+=(\"[^\"]*\"|\S+) )+", "", line), comments=True) for line in lines)
    return [words for words in split if words]


def check_options(words: list[str]) -> None:
    """A server knows every option it is given, and says so in its help."""
    help_text = subprocess.run([words[0], "--help"], capture_output=True, text=True, check=False, timeout=60).stdout
    listed = help_text if words[0] == "memcached" else Path("/etc/redis/redis.conf").read_text()
    options = [option for word in words[1:] for option in word.split(",") if re.match(r"-|ssl_", option)]
    assert [option for option in options if option.split("=")[0].lstrip("-") not in listed] == []


def check_extras(words: list[str]) -> None:
    metadata = (REPOSITORY / "python" / "pyproject.toml").read_text()
    for extra in re.findall(r"pinyon\[(\w+)\]", " ".join(words)):
        assert re.search(rf"^{extra} = \[", metadata, re.MULTILINE)
    for folder in (word for word in words if word.startswith(".")):
        assert (REPOSITORY / folder.replace("./pinyon/", "") / "pyproject.toml").exists()


def check_root(words: list[str]) -> None:
    """Root installs packages, and what a checkout built."""
    checks = {"apt-get": check_packages, "make": check_target, "ldconfig": has_nothing_of_ours}
    checks[words[1]](words[1:])


def check_packages(words: list[str]) -> None:
    """The tests install the same; git they came with, and Rust if there is none. `-y` asks nothing."""
    rust = re.findall(r"install_packages (rustc\S*) (cargo\S*)$", (REPOSITORY / "tools" / "setup").read_text(), re.M)
    installed = "\n".join(["git", "-y", *rust[0], (REPOSITORY / "tools" / "debian-packages.txt").read_text()])
    assert words[:2] == ["apt-get", "install"]
    assert [word for word in words[2:] if not re.search(rf"^{word}\b", installed, re.MULTILINE)] == []


def check_gem(words: list[str]) -> None:
    """`make test-dist` installs a gem of this version."""
    assert words[:3] == ["gem", "install", "--local"]
    assert words[3].startswith(f"dist/pinyon-{pinyon.__version__}-")


def check_cpanm(words: list[str]) -> None:
    """`make test-dist` installs the same file."""
    assert words[1:] == [f"dist/Pinyon-{pinyon.__version__}.tar.gz"]


def check_target(words: list[str]) -> None:
    """A target of the checkout's, or of what Perl makes."""
    targets = {"install"} | set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in words[1:] if "=" not in word} <= targets


def check_module(words: list[str]) -> None:
    """The help of a module of ours names every option; a script exists; other modules make environments."""
    if words[1] == "-m" and words[2].startswith("pinyon"):
        verb = [word for word in words[3:4] if not word.startswith("-")]
        command = [sys.executable, "-m", words[2], *verb, "--help"]
        helped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        assert [word for word in words[3:] if word.startswith("--") and word not in helped] == []
    elif words[1] != "-m":
        assert (REPOSITORY / words[1]).exists()


def check_nothing_unregistered(words: list[str]) -> None:
    """pip installs a checkout, a wheel or other packages: no index has Pinyon yet."""
    assert [word for word in words[1:] if re.match(r"pinyon\b(?!/)", word)] == []
    check_extras(words[1:])


def has_nothing_of_ours(words: list[str]) -> None:
    """Fetching a checkout, building, copying."""


def is_run_elsewhere(words: list[str]) -> None:
    """By test_locks_documentation.py (redis-cli), the test of compression (zstd), `make test-dist` (git, python3), and
    the tests of other languages (cc, perl, ruby, starman)."""


#: How each command that a page names is checked, beside the shell's own opinion.
CHECKS = {
    "cargo": has_nothing_of_ours,
    "cd": has_nothing_of_ours,
    "cc": is_run_elsewhere,
    "cp": has_nothing_of_ours,
    "cpanm": check_cpanm,
    "docker": has_nothing_of_ours,
    "gem": check_gem,
    "git": has_nothing_of_ours,
    "make": check_target,
    "memcached": check_options,
    "pinyon": lambda words: parse(words[1:]),
    "pip": check_nothing_unregistered,
    "python": check_module,
    "python3": check_module,
    "redis-cli": is_run_elsewhere,
    "redis-server": check_options,
    "starman": is_run_elsewhere,
    "ruby": is_run_elsewhere,
    "perl": is_run_elsewhere,
    "sudo": check_root,
    "zstd": is_run_elsewhere,
}


@pytest.mark.parametrize("block", those_in("sh"), ids=lambda block: block.name)
def test_the_commands_of_a_block_are_as_their_programs_want_them(block: Block) -> None:
    subprocess.run(["bash", "-n", "-c", block.source], check=True, timeout=60)
    for words in commands(block):
        CHECKS[Path(words[0]).name](words)


@pytest.mark.parametrize("block", those_in("json"), ids=lambda block: block.name)
def test_a_block_is_json(block: Block) -> None:
    json.loads(block.source)


@pytest.mark.parametrize("block", those_in("diff"), ids=lambda block: block.name)
def test_both_sides_of_a_difference_are_python(block: Block) -> None:
    for side in "-+":
        ast.parse("\n".join(line[1:] for line in block.source.splitlines() if line[0] in (side, " ")))
    for name in re.findall(r"\bpinyon\.(?:frameworks|compat)\.[\w.]+", block.source):
        pkgutil.resolve_name(name)


#: What pages that are read elsewhere, such as on an index of packages, put before the path of a file.
PUBLISHED = "https://github.com/pinyon-client/pinyon/blob/main/"


def missing(page: Path, link: str) -> bool:
    """Whether a link leads to no file, or to no heading."""
    name, _, anchor = link.partition("#")
    folder = REPOSITORY if name.startswith(PUBLISHED) else page.parent
    target = (folder / name.removeprefix(PUBLISHED)).resolve() if name else page
    if not target.exists() or REPOSITORY not in [target, *target.parents]:
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    inside = [link for link in links(page) if link.startswith(PUBLISHED) or not re.match(r"https?:|mailto:", link)]
    assert [link for link in inside if missing(page, link)] == []


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "locks.md"
    assert missing(page, "nothing.md")
    assert missing(page, "python.md#nothing")
    assert missing(page, "/etc/passwd")
    assert missing(page, f"{PUBLISHED}docs/nothing.md")
    assert not missing(page, f"{PUBLISHED}docs/locks.md")
    assert not missing(page, "../README.md")
    written = tmp_path / "page.md"
    written.write_text("# A title: `x` & [y](z.md)\n\n[a](b.md#c) `[no](link)` ![d](e.svg)\n\n# A title\n\n# A title\n")
    assert anchors(written) == {"a-title-x--y", "a-title", "a-title-1"}
    assert links(written) == ["z.md", "b.md#c", "e.svg"]


def test_the_page_on_tls_has_every_setting() -> None:
    text = (REPOSITORY / "docs" / "tls.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert documented == list(json.loads(DEFAULT_SETTINGS)["Tls"])


def test_the_series_of_the_page_on_metrics_are_those_of_its_counters() -> None:
    """OpenTelemetry's Prometheus exporter writes dots as underscores, then the unit, then `_total`."""
    text = (REPOSITORY / "docs" / "observability.md").read_text()
    counters = re.findall(r"^\| `(pinyon[\w.]+)` \| counter(?:, (\w+))? \|", text, re.MULTILINE)
    series = {"_".join(filter(None, (name.replace(".", "_"), unit, "total"))) for name, unit in counters}
    named = set(re.findall(r"\bpinyon_\w+_total\b", text))
    assert {"pinyon_client_command_duration_bucket_total"} < named <= series
    assert "duration_bucket_total[" in text


@pytest.mark.parametrize("page", ["gevent", "asyncio"])
def test_the_limits_of_a_page_have_their_defaults(page: str) -> None:
    """Both pages say what both clients do."""
    text = (REPOSITORY / "docs" / f"{page}.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.,]+)", text, re.MULTILINE))
    documented = {setting: float(default.replace(",", "")) for setting, default in rows.items()}
    documented["max_value_size"] *= 1024 * 1024
    settings = json.loads(DEFAULT_SETTINGS)["Client"]
    assert set(documented) >= {"timeout", "connect_timeout", "connections", "max_value_size"}
    assert documented == {setting: settings[setting] for setting in documented}


def test_the_examples_of_the_docstrings_run(places: dict[str, str], server: Memcached, redis: Redis) -> None:
    assert pinyon.__doc__ is not None
    names: dict[str, Any] = {}
    source = placed(pinyon.__doc__[pinyon.__doc__.index(">>>") :], places)
    outcome = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(source, names, "pinyon", None, 0))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    measured = (REPOSITORY / "PERFORMANCE.md").read_text().splitlines()
    rows = [re.findall(r"\d[\d,]*,\d{3}|0\.\d\d|(?<=\| )\d{3}(?= \()", row) for row in _rows("README.md")]
    rows = [figures for figures in rows if figures]
    assert len(rows) >= 5
    assert [figures for figures in rows if not any(all(each in line for each in figures) for line in measured)] == []


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 100


def _rows(page: str) -> list[str]:
    return [line for line in (REPOSITORY / page).read_text().splitlines() if line.startswith("| ")]


def test_the_site_has_every_page_and_every_public_name() -> None:
    docs = REPOSITORY / "docs"
    contents = (docs / "index.rst").read_text()
    entries = set(re.findall(r"^   ([\w./-]+)$", contents, re.MULTILINE))
    pages = [*docs.glob("*.md"), *docs.glob("reference/*.rst")]
    assert {str(page.relative_to(docs).with_suffix("")) for page in pages} <= entries
    reference = "".join(page.read_text() for page in docs.glob("reference/*.rst"))
    shown = set(re.findall(r"^\.\. auto\w+:: (\S+)", reference, re.MULTILINE))
    assert {f"pinyon.{name}" for name in pinyon.__all__ if name != "__version__"} <= shown
    assert {f"pinyon.aio.{name}" for name in pinyon.aio.__all__} <= shown


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\n```\n\n- item\n\n  ```sh\n  ls\n  ```\n\n```\nno language\n```\n")
    assert [(block.line, block.language) for block in blocks(page)] == [(3, "python"), (9, "sh"), (13, "")]
