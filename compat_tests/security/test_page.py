"""Everything in docs/security.md that is a command or a setting of TLS is tried, in the order of the page, on one ottla.

Other ports take the place of the page's. A block of settings is added to those before it, and the broker is started anew.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from compat_tests.brokers import Ottla
from compat_tests.commands import ENVIRONMENT
from compat_tests.pages import DOCS, steps
from compat_tests.reference.kafka import free_port
from compat_tests.waiting import wait_for

BLOCK = re.compile(r"^```(console|properties)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^\$ (.*)$", re.MULTILINE)
OTTLA = f'ottla() {{ {shlex.quote(sys.executable)} -m ottla "$@"; }}\n'


class OfPage(Ottla):
    """A broker that is given nothing but the page's settings and its directory."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, settings)
        self.settings = {"log.dirs": str(self.data_dir), **settings}
        self._said = self._log()  # by those that ran before

    def _log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def answers(self) -> bool:
        return "] started" in self._log()[len(self._said) :]


class Reader:
    """Somebody who does what the page says, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = {"9092": str(free_port()), "9093": str(free_port())}
        self.settings: dict[str, str] = {}
        self.broker: OfPage | None = None
        self.stale = False

    def text(self, block: str) -> str:
        return re.sub("|".join(self.ports), lambda found: self.ports[found[0]], block)

    def configure(self, block: str) -> None:
        self.settings |= dict(line.split("=", 1) for line in self.text(block).splitlines())
        self.stale = True

    def start(self) -> None:
        """Starts the broker with the settings so far, if they have changed; it answers once its port is open."""
        if not self.stale:
            return
        self.stop()
        self.broker, self.stale = OfPage(self.directory, self.settings), False
        self.broker.start()

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.stop()

    def run(self, command: str) -> None:
        if command.startswith("ottla "):
            self.start()
        done = subprocess.run(
            ["bash", "-c", OTTLA + self.text(command)],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_the_page(tmp_path: Path) -> None:
    page = (DOCS / "security.md").read_text().partition("## Access rules")[0]
    reader = Reader(tmp_path)
    try:
        for kind, block in BLOCK.findall(page):
            if kind == "properties":
                reader.configure(block)
                continue
            for command in COMMANDS.findall(block):
                reader.run(command)
        reader.start()
    finally:
        reader.stop()
    log = (tmp_path / "broker.log").read_text()
    assert f"reaches SSL://:{reader.ports['9093']} may read" in log, "until clients need certificates"
    assert f"reaches EXTERNAL://:{reader.ports['9093']}" not in log


# "In ten commands"


def test_ten_commands(tmp_path: Path) -> None:
    port = str(free_port())

    def bash(command: str) -> subprocess.CompletedProcess[str]:
        script = OTTLA + command.replace("9093", port)
        given: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": 60}
        return subprocess.run(["bash", "-c", script], check=False, **given)

    with ExitStack() as stack:
        for command in (step.rstrip() for step in steps("security.md", "In ten commands", 10)):
            if command == "ottla serve server.properties &":
                log = stack.enter_context((tmp_path / "broker.log").open("wb"))
                serve = [sys.executable, "-m", "ottla", "serve", "server.properties"]
                process = stack.enter_context(subprocess.Popen(serve, cwd=tmp_path, stdout=log, stderr=log, env=ENVIRONMENT))
                stack.callback(process.terminate)
                wait_for(lambda: "] started" in (tmp_path / "broker.log").read_text(), "the broker has started")
                continue
            done = bash(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}{(tmp_path / 'broker.log').read_text()[-2000:]}"
        as_alice = "-b localhost:9093 --command-config alice.properties"
        assert bash(f"ottla consume orders -e {as_alice}").stdout == "first order\n"
        for command, why in (
            (f"ottla topic create hers {as_alice}", "not allowed for this user"),
            ("ottla topic list -b localhost:9093", "cannot reach"),
            (f"ottla topic list {as_alice} -X sasl.password=wrong", "SASL authentication error"),
        ):
            done = bash(f"{command} --timeout 3")
            assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
            assert why in done.stderr
    logged = (tmp_path / "broker.log").read_text()
    assert "may read" not in logged, "no warning of a listener that is open"
    assert "secret" not in logged
    for name in ("server.properties", "admin.properties", "alice.properties", "broker.pem", "ottla-data"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0, name
