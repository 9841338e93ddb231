"""Calls of the test port (docs/testkit.md), as any program makes them by HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from compat_tests.waiting import TIMEOUT_S


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
