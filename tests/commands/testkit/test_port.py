"""Tests of where `ottla testkit` finds the test port, and what it says of one that is none."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import ottla.testing
from ottla.commands.testkit import port
from tests.commands.testkit.test_command import ran

TOKEN = "secret"


def test_where_the_port_is(tmp_path: Path) -> None:
    with ottla.testing.Broker(test_port=0) as broker:
        look_everywhere(broker, tmp_path)


def look_everywhere(broker: ottla.testing.Broker, tmp_path: Path) -> None:
    assert broker.test_url is not None
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"bootstrap": broker.bootstrap, "test": broker.test_url, "pid": 1}))
    for line in (f"state --url {broker.test_url}/", f"state --ready-file {ready}"):
        assert ran(line)[0] == 0
    assert ran("state", **{port.READY_FILE: str(ready)})[0] == 0
    assert ran("state", **{port.URL: broker.test_url, port.READY_FILE: str(tmp_path)})[0] == 0
    nowhere = "ottla: where is the test port? Give --url or --ready-file, or set OTTLA_TEST_URL or OTTLA_READY_FILE\n"
    assert ran("state") == (1, "", nowhere)
    assert ran(f"state --ready-file {tmp_path / 'none'}")[2] == f"ottla: {tmp_path / 'none'}: No such file or directory\n"
    ready.write_text('{"bootstrap": "x:1", "test": null, "pid": 1}')
    assert "start it with --test-port 0" in ran(f"state --ready-file {ready}")[2]
    ready.write_text("no")
    assert "this is not what a broker writes with --ready-file" in ran(f"state --ready-file {ready}")[2]
    nobody, not_http = "http://127.0.0.1:1", f"http://{broker.bootstrap}"
    assert ran(f"state --url {nobody}")[2] == f"ottla: cannot reach the test port {nobody}: connection refused\n"
    assert ran(f"state --url {not_http}")[2].startswith(f"ottla: {not_http} does not answer like a test port")


class Port(BaseHTTPRequestHandler):
    """A port that wants a token, and says what is wrong in words of its own."""

    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.send_response(200 if allowed else 503)
        self.end_headers()
        self.wfile.write(b"{}" if allowed else b"no JSON")

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def test_a_token_is_sent_and_a_proxy_is_not_asked() -> None:
    server = HTTPServer(("127.0.0.1", 0), Port)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        proxies = {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
        assert ran(f"state --url {url} --token {TOKEN}", **proxies) == (0, "{}\n", "")
        assert ran(f"state --url {url}")[2] == "ottla: the test port answers 503 Service Unavailable\n"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
