"""Two applications in one process of a real Apache: mod_wsgi gives each an interpreter of its own by default."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pinyon_verify.ports import free_port
from waiting import SOON, wait_until

import pinyon

MODULES = Path("/usr/lib/apache2/modules")
#: For the version of Python that these tests run in: other versions cannot import its libraries.
WSGI = MODULES / f"mod_wsgi.so-{sys.version_info.major}.{sys.version_info.minor}"
APACHE = shutil.which("apache2", path="/usr/sbin:/usr/bin")

pytestmark = pytest.mark.skipif(
    APACHE is None or not WSGI.exists(), reason="apache2 with mod_wsgi for this version of Python is not installed"
)

#: A page that can do without its cache, which does not run.
APPLICATION = """
import pinyon

cache = pinyon.Client("127.0.0.1:1")

def application(environ, start_response):
    try:
        cache.get("page")
    except pinyon.Error as error:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"made without the cache"]
"""

CONFIGURATION = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule wsgi_module {wsgi}
WSGISocketPrefix {folder}/wsgi
User nobody
Group {group}
WSGIDaemonProcess usual threads=2 python-path={path}
WSGIScriptAlias /usual-1 {folder}/usual1.wsgi process-group=usual
WSGIScriptAlias /usual-2 {folder}/usual2.wsgi process-group=usual
WSGIDaemonProcess global threads=2 python-path={path}
WSGIScriptAlias /global-1 {folder}/global1.wsgi process-group=global application-group=%{{GLOBAL}}
WSGIScriptAlias /global-2 {folder}/global2.wsgi process-group=global application-group=%{{GLOBAL}}
WSGIDaemonProcess own1 threads=2 python-path={path}
WSGIDaemonProcess own2 threads=2 python-path={path}
WSGIScriptAlias /own-1 {folder}/own1.wsgi process-group=own1
WSGIScriptAlias /own-2 {folder}/own2.wsgi process-group=own2
"""


class Apache:
    """A running Apache, with pairs of applications."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.port = port
        self.process = process

    def status_of(self, page: str) -> int:
        """Open a page. Return the status of the answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{page}", timeout=SOON) as response:
                assert response.read() == b"made without the cache"
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    def log(self) -> str:
        """Return what Apache and the applications have logged."""
        return (self.folder / "apache.log").read_text()

    def answers(self) -> bool:
        """Return whether it serves pages already."""
        assert self.process.poll() is None, "Apache has ended"
        with contextlib.suppress(OSError):
            return self.status_of("") > 0
        return False


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    group = "nogroup" if "nogroup:" in Path("/etc/group").read_text() else "nobody"
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o755)
        for application in ("usual1", "usual2", "global1", "global2", "own1", "own2"):
            (folder / f"{application}.wsgi").write_text(APPLICATION)
        path = Path(pinyon.__file__).parents[1]
        settings = {"folder": folder, "port": port, "modules": MODULES, "wsgi": WSGI, "group": group, "path": path}
        (folder / "apache.conf").write_text(CONFIGURATION.format(**settings))
        command = [str(APACHE), "-D", "FOREGROUND", "-f", str(folder / "apache.conf")]
        with subprocess.Popen(command) as process:
            running = Apache(folder, port, process)
            try:
                wait_until(running.answers)
                yield running
            finally:
                process.terminate()


def test_a_second_application_in_an_interpreter_of_its_own_is_told_what_to_set(apache: Apache) -> None:
    assert apache.status_of("usual-1") == 200
    assert apache.status_of("usual-2") == 500
    assert "ImportError: pinyon was imported by another interpreter of this process already" in apache.log()
    assert "WSGIApplicationGroup %{GLOBAL}" in apache.log()
    assert apache.status_of("usual-1") == 200


def test_two_applications_share_the_main_interpreter(apache: Apache) -> None:
    assert [apache.status_of("global-1"), apache.status_of("global-2")] == [200, 200]


def test_two_applications_have_a_process_each(apache: Apache) -> None:
    assert [apache.status_of("own-1"), apache.status_of("own-2")] == [200, 200]
