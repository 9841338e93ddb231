"""Tests of how a line becomes a record, and what bounds the reading. What needs a cluster is in
compat_tests/test_commands_io.py."""

from __future__ import annotations

import io
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from ottla.commands import produce
from ottla.commands.clients.client import Cluster
from ottla.commands.output import Failure
from ottla.commands.produce import Sender, Template, check_topic, numbered_lines, records_of, send_all
from ottla.commands.record_text import BadRecord, NewRecord
from ottla.server.program.app import app

PLAIN = Template(key=b"default", headers=(("h", b"1"),), partition=3, timestamp_ms=9)


def test_a_line_as_it_is() -> None:
    assert PLAIN.record(b"\xff:x\r") == NewRecord(b"default", b"\xff:x\r", [("h", b"1")], 3, 9)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [(b"k::v::w", b"k", b"v::w"), (b"::v", b"", b"v"), (b"v", b"default", b"v"), (b"k::", b"k", None), (b"", b"default", None)],
)
def test_keys_and_tombstones(line: bytes, key: bytes, value: bytes | None) -> None:
    record = PLAIN._replace(key_delimiter=b"::", null_value=b"").record(line)
    assert (record.key, record.value) == (key, value)


def test_json_beats_the_options() -> None:
    template = PLAIN._replace(as_json=True)
    assert template.record(b"{}") == NewRecord(b"default", None, [("h", b"1")], 3, 9)
    line = b'{"key": "k", "value": "v", "headers": {"i": "2"}, "partition": 0, "timestamp": 5}'
    assert template.record(line) == NewRecord(b"k", b"v", [("h", b"1"), ("i", b"2")], 0, 5)


def test_lines_are_counted_and_measured() -> None:
    read: list[int] = []
    assert list(numbered_lines("f", io.BytesIO(b"a\n\nbc"), 2, read.append)) == [(1, b"a"), (2, b""), (3, b"bc")]
    assert read == [2, 1, 2]


def test_a_line_that_is_too_long() -> None:
    lines = numbered_lines("f", io.BytesIO(b"ab\nabc\n"), 2, int)
    assert next(lines) == (1, b"ab")
    with pytest.raises(BadRecord, match="f, line 2 is longer than 2 bytes"):
        next(lines)


def test_the_place_of_a_bad_line() -> None:
    with pytest.raises(BadRecord, match="f, line 7: not JSON"):
        list(records_of([(7, b"x")], Template(as_json=True), "f"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("t --tombstone", "needs --key"),
        ("t f --value x", "not both"),
        ("t -X transactional.id=x", "does not use transactions"),
        ("t -H x", "is not name=value"),
        ("t -H \udcff=x", "is not UTF-8"),
        ("\udcff", "is not UTF-8"),
        ("t -X \udcff=x", "is not UTF-8"),
        ("t -X sasl.username=\udcff", "'sasl.username' is not UTF-8"),
        ("t --key-delimiter=", "at least one character"),
        ("t --timestamp 14:00", "write 2026-11-21T09:00:00Z"),
        ("t --timestamp 0", "is not a time after"),
        ("t --acks 2", "--acks"),
        ("t -z brotli", "--compression"),
        ("t --batch 0", "--batch"),
        ("t -p -1", "--partition"),
    ],
)
def test_wrong_usage(line: str, words: str) -> None:
    ran = CliRunner().invoke(app, ["produce", "--bootstrap", "127.0.0.1:1", *line.split()], env={"COLUMNS": "200"})
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert words in ran.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("t --json -K :", "choose one"),
        ("t -f %s --json", "choose one"),
        ("t -g g -p 1", "the group decides which partitions"),
        ("t -g g --from 5", "with --group"),
        ("t --group=", "a name is empty"),
        ("t -g \udcff", "is not UTF-8"),
        ("t -X group.id=", "group.id is empty"),
        ("\udcff", "is not UTF-8"),
        ("t --from soon", "is not a place in a topic"),
        ("t --until ''", "is not a place in a topic"),
        ("t --value-encoding rot13", "--value-encoding"),
        ("t --isolation none", "--isolation"),
        ("t -f %q", "is unknown"),
        ("t -c -1", "--count"),
        ("", "Missing argument"),
    ],
)
def test_wrong_usage_of_consume(line: str, words: str) -> None:
    ran = CliRunner().invoke(app, ["consume", "--bootstrap", "127.0.0.1:1", *line.split()], env={"COLUMNS": "200"})
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert words in ran.stderr


def test_a_missing_file_is_known_before_anything_is_sent(tmp_path: Path) -> None:
    """It is noticed even before the first request to the cluster."""
    ran = CliRunner().invoke(app, ["produce", "-b", "127.0.0.1:1", "t", str(tmp_path / "none")])
    assert ran.exit_code == 1


def test_a_loaded_cluster_has_time_to_make_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has as much time as the user allows for any answer."""
    now = [0.0]
    monkeypatch.setattr(produce, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(Cluster):
        def reach(self, *_: Any, **__: Any) -> Any:
            now[0] += 1
            return SimpleNamespace(topics={"t": SimpleNamespace(error=None, partitions={0: None})} if now[0] > 9 else {})

    producer: Any = SimpleNamespace(poll=lambda _: 0)
    check_topic(Slow({}, timeout_s=10), producer, "t", 0)
    now[0] = 0
    with pytest.raises(Failure, match="topic t: there is no such topic"):
        check_topic(Slow({}, timeout_s=5), producer, "t", None)


def test_the_record_in_hand_at_ctrl_c_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The queue is full, and stays so."""

    class Full:
        def produce(self, *_: Any, **__: Any) -> None:
            raise BufferError

        def poll(self, timeout_s: float) -> None:
            if timeout_s:
                signal.raise_signal(signal.SIGINT)

        def flush(self, _: float) -> int:
            return 0

    full: Any = Full()
    with pytest.raises(KeyboardInterrupt):
        send_all(Sender(Cluster({}), full, "t"), iter([NewRecord(None, b"v", [], None, None)]))
    assert capsys.readouterr().err == "ottla: interrupted: 0 records delivered, 1 not\n"
