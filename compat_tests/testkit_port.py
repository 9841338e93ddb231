"""Calls of the test port (docs/testkit.md), as any program makes them by HTTP, and a broker that has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from compat_tests.waiting import TIMEOUT_S, wait_for


def call(url: str | None, method: str, path: str, body: Any = None) -> Any:
    """The answer to a call of the kit. AssertionError with the broker's words if it refuses. `url` is the broker's `test_url`."""
    assert url is not None  # it has a test port
    data = None if body is None else json.dumps(body).encode()
    request = Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except HTTPError as refusal:
        raise AssertionError(f"{method} {path} {body}: {refusal.code} {refusal.read().decode()}") from None


class Served:
    """A broker with a test port, in a process of its own that ends with this one."""

    def __init__(self, directory: Path, *options: str) -> None:
        """Returns when it is ready. AssertionError with its log if it does not get there."""
        ready, self.log = directory / "ready.json", directory / "log"
        arguments = ["--port", "0", "--test-port", "0", "--data-dir", str(directory / "data"), "--ready-file", str(ready)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla", *arguments, *options, "--until-stdin-closes"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        wait_for(lambda: ready.exists() or self._process.poll() is not None, self.log.read_text)
        assert ready.exists(), self.log.read_text()
        told = json.loads(ready.read_text())
        self.bootstrap: str = told["bootstrap"]
        self._url: str = told["test"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a call of the kit."""
        return call(self._url, method, path, body)

    def end(self) -> None:
        """Ends it as the end of this process would."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(TIMEOUT_S) == 0, self.log.read_text()
