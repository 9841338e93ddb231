"""Tests of what a broker has loaded when it is ready: start-up time and idle memory are made of imports.

A module that turns up here is imported for the first request that needs it, inside the function that needs it, not at the top of
a file that every broker loads: fifty message modules are 0.17 s, typer and rich 0.06 s.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio, sys
import ottla.server.program.cli
from ottla.server.broker.broker import Broker
from ottla.server.settings.broker_config import BrokerConfig

async def main():
    config, _ = BrokerConfig.from_mapping({
        "node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0", "controller.quorum.voters": "1@localhost:9093", "log.dirs": sys.argv[1]})
    broker = Broker(config)
    await broker.start()
    print("\\n".join(sys.modules))
    await broker.stop()

asyncio.run(main())
"""

COLD = (
    "typer",
    "rich",
    "click",
    "lz4",
    "zstandard",
    "cramjam",
    "difflib",
    "prometheus_client",
    "h11",
    "confluent_kafka",
    "ottla.server.metrics",
    "ottla.server.http",
    "ottla.server.testkit",
    "tests.memdisk",
    "ottla.commands",
    "ottla.console",
    "starlette",
    "uvicorn",
    "jinja2",
    "ottla.server.peers",
    "ottla.server.quorum",
    "ottla.server.replication",
    "ottla.server.quotas",
    "ottla.server.metadata.quotas",
    "cryptography",
    "ottla.server.broker.secured_listeners",
    "ottla.server.network.tls_listener",
    "ottla.server.security.settings",
    "ottla.server.security.tls",
    "ottla.server.broker.logins",
    "ottla.server.security.login",
    "ottla.server.security.offered_mechanisms",
    "ottla.wire.scram",
    "jwt",
    "gssapi",
    "ottla.server.group",
    "ottla.server.coordination",
    "importlib.metadata",  # which the package crc32c would ask for its own version
    "email",
    "zipfile",
    "argparse",
    "datetime",
    "stringprep",  # with the tables of Unicode, for a host's name
    "unicodedata",
)


def test_cold_modules_are_not_loaded_at_ready(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    loaded = ran.stdout.split()
    assert "ottla.server.broker.broker" in loaded
    assert [name for name in loaded if name.partition(".")[0] in COLD or name in COLD] == []
    messages = {name.removeprefix("ottla.wire.messages.") for name in loaded if name.startswith("ottla.wire.messages.")}
    assert {name for name in messages if not name.startswith("internal")} == set()
    assert [name for name in loaded if name.startswith("ottla.server.handlers.")] == []
