"""`ottla console` as a process, a broker that has its own, and a visitor that speaks HTTP to either, without a browser, and keeps
its cookie."""

from __future__ import annotations

import html
import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from compat_tests.commands import environment

_READY: Final = re.compile(r"ottla console ready: (https?://\S+) (?:cluster|directory) .+\n")
_BROKER_READY: Final = re.compile(
    r"ottla \S+ ready: bootstrap (\S+), .*console (https?://[^\s,]+)"
    r"(?:, UNDER TEST at http://[^\s,]+(?:, \d+ SIMULATED nodes)?)?\n"
)
_CELL: Final = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")


@contextmanager
def console(bootstrap: str, *words: str) -> Iterator[str]:
    """Runs a console for the block, and yields its address with the token in it; without `bootstrap`, of no cluster."""
    cluster = ["--bootstrap", bootstrap] if bootstrap else []
    command = [sys.executable, "-m", "ottla", "console", *cluster, "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            found = _READY.fullmatch(process.stdout.readline())
            assert found is not None, "the console says where it is"
            yield found[1]
        finally:
            process.terminate()
    assert process.returncode == 0


@contextmanager
def broker(directory: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Runs a broker with a console, and yields it with its address and that of the console."""
    command = [sys.executable, "-m", "ottla", "--port", "0", "--data-dir", str(directory), "--console-port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = _BROKER_READY.fullmatch(line)
            assert found is not None, line
            yield process, found[1], found[2]
        finally:
            process.terminate()
            process.communicate()


class Page(NamedTuple):
    status: int
    text: str
    location: str | None

    @property
    def cells(self) -> list[str]:
        """Returns what stands in the cells of the page's tables."""
        return [" ".join(html.unescape(_TAG.sub("", cell)).split()) for cell in _CELL.findall(self.text)]

    @property
    def fields(self) -> dict[str, str]:
        """Returns the hidden fields of the page's last form."""
        form = self.text.rpartition("<form")[2]
        found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
        return {name: html.unescape(value) for name, value in found}


class Visitor:
    """Has a session of the console at this address."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.cookie = ""
        self._ask("GET", f"/?{parts.query}")
        assert bool(self.cookie) == bool(parts.query)  # without a token, all share a session

    def get(self, path: str) -> Page:
        return self._ask("GET", path)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[str]]:
        """Yields the lines of a stream of events as they come."""
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=60)) as connection:
            connection.request("GET", html.unescape(path), headers={"Cookie": self.cookie})
            answer = connection.getresponse()
            assert answer.status == 200
            yield (line.decode().rstrip("\n") for line in answer)

    def post(self, path: str, page: Page, **fields: str) -> Page:
        """Sends the page's last form with these fields filled in."""
        return self._ask("POST", path, urlencode({**page.fields, **fields}))

    def _ask(self, method: str, path: str, body: str | None = None) -> Page:
        headers = {"Cookie": self.cookie, "Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=60)) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            self.cookie = (answer.headers["Set-Cookie"] or self.cookie).partition(";")[0]
            return Page(answer.status, answer.read().decode(), answer.headers["Location"])
