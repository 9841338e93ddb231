"""The parts of `ottla config` that a running cluster would show only by chance; compat_tests/test_commands_config.py has the
rest.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

import ottla.testing
from ottla.commands import config
from ottla.server.program.app import app


def test_a_topic_that_goes_while_all_are_listed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.testing.Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for future in admin.create_topics(
            [NewTopic(name, 1, 1, config={"retention.ms": "5"}) for name in ("goes", "stays")]
        ).values():
            future.result(30)
        read = config.Settings.read

        def read_later(*arguments: Any) -> Any:
            admin.delete_topics(["goes"])["goes"].result(30)
            return read(*arguments)

        monkeypatch.setattr(config.Settings, "read", read_later)
        ran = CliRunner().invoke(app, ["config", "list", "--bootstrap", broker.bootstrap])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert [line for line in ran.stdout.splitlines() if line.startswith("topic\t")] == ["topic\tstays\tretention.ms\t5\ttopic"]
