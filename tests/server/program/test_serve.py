"""Tests of where the settings of a start come from, and what is said when it fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from pathlib import Path

import pytest
import uvloop

from ottla.log.errors import InconsistentMetadata, LogDirLocked, NoRoom, StorageError
from ottla.server.program.serve import (
    LONGEST_LINE,
    CannotStart,
    LineFormatter,
    ServeOptions,
    _explain,
    _log_ignored_settings,
    gather,
    loop_factory,
)
from ottla.server.settings.broker_config import BrokerConfig


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def config(options: ServeOptions, **environment: str) -> BrokerConfig:
    return gather(options, environment, read_bytes)[0]


def listeners(options: ServeOptions, **environment: str) -> tuple[list[str], list[str]]:
    result = config(options, **environment)
    return [str(each) for each in result.listeners], [str(each) for each in result.advertised_listeners]


def test_the_later_is_the_stronger(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.retention.ms=2\nbroker.rack=2\nlog.dirs=/two\n")
    options = ServeOptions(str(path), ("log.retention.ms=4", "log.dirs=/four"), data_dir="/five")
    values = config(options, KAFKA_LOG_RETENTION_MS="3", KAFKA_BROKER_RACK="3").values
    assert [values[name] for name in ("num.partitions", "broker.rack", "log.retention.ms", "log.dirs")] == [2, "3", 4, ("/five",)]


def test_ids() -> None:
    assert config(ServeOptions(node_id=7)).node_id == 7
    assert config(ServeOptions(), CLUSTER_ID="abc").cluster_id == "abc"
    assert config(ServeOptions(cluster_id="def"), CLUSTER_ID="abc").cluster_id == "def"
    assert config(ServeOptions(), CLUSTER_ID="").cluster_id is None


def test_metrics_are_off_unless_one_of_the_sources_of_settings_says_otherwise() -> None:
    def found(options: ServeOptions, **environment: str) -> tuple[int | None, str]:
        values = config(options, **environment).values
        return values["ottla.metrics.port"], values["ottla.metrics.host"]

    assert found(ServeOptions()) == (None, "127.0.0.1")
    assert found(ServeOptions(metrics_port=0)) == (0, "127.0.0.1")
    assert found(ServeOptions(metrics_port=7), KAFKA_OTTLA_METRICS_PORT="8", KAFKA_OTTLA_METRICS_HOST="::") == (7, "::")
    assert config(ServeOptions(override=("ottla.metrics.port=9",))).unknown == ()
    with pytest.raises(CannotStart, match=r"^ottla.metrics.port: '65536' .*--override\]$"):
        config(ServeOptions(override=("ottla.metrics.port=65536",)))


def test_a_port_moves_the_listener_of_clients() -> None:
    assert listeners(ServeOptions(port=0)) == (["PLAINTEXT://127.0.0.1:0"], ["PLAINTEXT://127.0.0.1:0"])
    both = {"KAFKA_LISTENERS": "CONTROLLER://:9093,PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}
    assert listeners(ServeOptions(port=5), **both) == (["PLAINTEXT://:5"], ["PLAINTEXT://localhost:5"])


def test_a_proxy_s_address_stays() -> None:
    proxied = {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://proxy:19092"}
    assert listeners(ServeOptions(port=5, host="10.0.0.1"), **proxied) == (
        ["PLAINTEXT://10.0.0.1:5"],
        ["PLAINTEXT://proxy:19092"],
    )


def test_a_host_moves_what_is_advertised_as_well() -> None:
    assert listeners(ServeOptions(host="::1")) == (["PLAINTEXT://[::1]:9092"], ["PLAINTEXT://[::1]:9092"])


def test_a_complaint_says_where_the_text_stood(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("\nnum.partitions=x\n")
    where = f"num.partitions: 'x' is not a whole number of 32 bits; write it in digits [{path}, line 2]"
    with pytest.raises(CannotStart) as refused:
        config(ServeOptions(str(path)))
    assert str(refused.value) == where
    with pytest.raises(CannotStart, match=r"\[KAFKA_NUM_PARTITIONS\]$"):
        config(ServeOptions(), KAFKA_NUM_PARTITIONS="x")
    with pytest.raises(CannotStart, match="--override: 'x' is not key=value"):
        config(ServeOptions(override=("x",)))
    with pytest.raises(CannotStart, match=r"name a server.properties that can be read"):
        config(ServeOptions(str(tmp_path / "nowhere")))


def test_settings_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    listener = "listener.name.plaintext."
    given = ("num.io.threads=9", "num.partitions=2", "num.partitons=2", f"{listener}num.network.threads=3")
    in_force = (f"{listener}max.connection.creation.rate=4", f"{listener}max.connections=5", f"{listener}ssl.keystore.type=PEM")
    options = ServeOptions(override=(*given, *in_force))
    _log_ignored_settings(*gather(options, {}, read_bytes))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "num.partitons is not a broker setting of Kafka 4.4: did you mean num.partitions? [--override]"),
        (
            "INFO",
            f"these settings are accepted but have no effect in ottla: {listener}num.network.threads, num.io.threads",
        ),
    ]


def test_settings_of_a_console_without_a_port_are_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    options = ServeOptions(override=("ottla.console.read.only=true",), console_no_token=True)
    _log_ignored_settings(*gather(options, {}, read_bytes))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "ottla.console.no.token [--console-no-token], ottla.console.read.only [--override]: without effect, because there is "
            "no console without ottla.console.port; --console-port N opens one",
        )
    ]
    caplog.clear()
    _log_ignored_settings(*gather(options._replace(console_port=0), {}, read_bytes))
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "begins", "has"),
    [
        (
            OSError(errno.EADDRINUSE, "Address already in use"),
            "listeners: PLAINTEXT://127.0.0.1:9092: Address",
            "stop what listens",
        ),
        (OSError(errno.EACCES, "Permission denied"), "listeners: ", "--port N"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "listeners: ", "--host HOST"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/d/.lock"),
            "log.dirs: /d/.lock: Permission denied",
            "--data-dir DIR",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "log.dirs: ", "No space left"),
        (LogDirLocked("/d is in use by another broker"), "log.dirs: /d is in use", "stop that broker"),
        (InconsistentMetadata("/d belongs to cluster a, not to b"), "log.dirs: /d belongs", "--cluster-id"),
    ],
)
def test_a_failed_start_is_one_line_with_key_and_remedy(error: Exception, begins: str, has: str) -> None:
    text = _explain(error, config(ServeOptions()))
    assert text.startswith(begins)
    assert has in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error", "/d/meta.properties"),
        StorageError("/d is offline: opening __cluster_metadata-0: [Errno 5] Input/output error: '/d/0.log'"),
        StorageError("reading /d/__cluster_metadata-0: [Errno 117] Structure needs cleaning"),
    ],
)
def test_a_disk_that_does_not_work_is_said_as_such_and_not_as_damage(error: Exception) -> None:
    text = _explain(error, config(ServeOptions()))
    assert text.startswith("log.dirs: ")
    assert "/d" in text
    assert text.endswith(
        "a fault of the disk, not of what is on it: see what the kernel's log (dmesg) says of it, repair or "
        "replace it, and start again"
    )
    assert "writable" not in text


def test_a_start_that_lacks_room_or_descriptors_says_what_to_do() -> None:
    text = _explain(NoRoom("/d cannot be opened: [Errno 24] Too many open files: '/d'"), config(ServeOptions()))
    assert text.startswith("log.dirs: /d cannot be opened")
    assert text.endswith("make room, or allow more open files (ulimit -n), and start again")


def test_a_message_is_one_line_whatever_clients_call_themselves() -> None:
    formatter = LineFormatter("%(levelname)s %(message)s")
    record = logging.makeLogRecord({"levelname": "INFO", "msg": "%s is closed", "args": ("ü\nERROR all is lost\r\x1b[2J",)})
    assert formatter.format(record) == r"INFO ü\nERROR all is lost\r\x1b[2J is closed"
    record = logging.makeLogRecord({"levelname": "INFO", "msg": "%s", "args": ("g" * 200_000,)})
    assert len(formatter.format(record)) == len("INFO ") + LONGEST_LINE


def test_the_event_loop_is_uvloop_s_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop_factory() is uvloop.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is asyncio.new_event_loop
