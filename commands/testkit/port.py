"""The test port of a broker (docs/testkit.md), as a client of it: where it is, and a call.

It is HTTP with JSON in both directions. A refusal is `{"error": "..."}`, and that text is what the user sees. No proxy is ever
used, because a test port is on this machine.
"""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Final, NamedTuple

import typer

from ottla.commands.output import Failure

URL: Final = "OTTLA_TEST_URL"
READY_FILE: Final = "OTTLA_READY_FILE"
TOKEN: Final = "OTTLA_TEST_TOKEN"
_ANSWER_S: Final = 60.0
"""The time that an answer may take in addition to the time that the call itself is told to wait."""
_WAITS: Final = ("timeout_ms", "down_ms")
"""The fields of calls that are answered later on purpose."""


class Port(NamedTuple):
    """The options that say where a test port is."""

    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", envvar=URL, help="The test port, as the ready line has it.")
    ] = None
    ready_file: Annotated[
        str | None,
        typer.Option("--ready-file", metavar="FILE", envvar=READY_FILE, help="The file that the broker wrote with --ready-file."),
    ] = None
    token: Annotated[
        str | None, typer.Option("--token", metavar="TOKEN", envvar=TOKEN, help="ottla.test.token, if the broker has one.")
    ] = None

    def find_url(self) -> str:
        """Returns the URL of the port, without a path. Raises Failure if nothing says where it is."""
        if self.url:
            return self.url.rstrip("/")
        if not self.ready_file:
            raise Failure(f"where is the test port? Give --url or --ready-file, or set {URL} or {READY_FILE}")
        try:
            with open(self.ready_file, encoding="utf-8") as file:
                found = json.load(file)["test"]
        except (ValueError, TypeError, KeyError) as error:
            raise Failure(f"{self.ready_file}: this is not what a broker writes with --ready-file ({error})") from error
        if found is None:
            raise Failure(f"{self.ready_file}: this broker has no test port; start it with --test-port 0")
        return str(found)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Returns the broker's answer to a call. `body` is sent as JSON unless it is None. Raises Failure, with the broker's own
        words if it refused."""
        from http.client import HTTPException  # these load only with a call
        from urllib.error import HTTPError, URLError
        from urllib.request import ProxyHandler, Request, build_opener

        url = self.find_url()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            request = Request(f"{url}{path}", data, headers, method=method)
            with build_opener(ProxyHandler({})).open(request, timeout=_ANSWER_S + _waited_s(body)) as answer:
                return json.load(answer)
        except HTTPError as refusal:
            raise Failure(_reason(refusal.read(), f"{refusal.code} {refusal.reason}")) from refusal
        except URLError as error:
            reason = error.reason
            text = os.strerror(reason.errno) if isinstance(reason, OSError) and reason.errno else str(reason)
            raise Failure(f"cannot reach the test port {url}: {text[:1].lower()}{text[1:]}") from error
        except (OSError, HTTPException, ValueError) as error:  # it ends, or is late, or is no JSON
            raise Failure(f"{url} does not answer like a test port: {error or type(error).__name__}") from error


def _waited_s(body: Any) -> float:
    if not isinstance(body, dict):
        return 0.0
    return sum(value for name in _WAITS if isinstance(value := body.get(name), int)) / 1000


def _reason(answer: bytes, status: str) -> str:
    """Returns what a refusal says, or which it is if it says nothing in JSON."""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, TypeError, KeyError):
        return f"the test port answers {status}"
