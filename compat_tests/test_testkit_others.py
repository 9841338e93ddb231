"""docs/testkit-from-others.md: every row is run against a broker of its own, prepared as the page says.

What stands in a row as code is run by what it is. A call of the test port is made and must be answered 2xx, and the lower-case
words behind it must be fields of its answer. Options are read as `ottla serve` reads them. A command of `ottla` must end well.
The name of a request must be one that is served. A row without any of these must say that it is no, and why.
"""

from __future__ import annotations

import ctypes
import json
import re
import shlex
from importlib.metadata import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

import ottla.testing
from compat_tests.testkit_port import call
from ottla.server.handlers import BROKER, served
from ottla.server.program import cli
from ottla.server.program.app import app
from ottla.server.program.serve import gather

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "testkit-from-others.md"
TIMEOUT_S: Final = 30
_ROW: Final = re.compile(r"^\| (`.+?) \| (.+) \|$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")
_CALL: Final = re.compile(r"(GET|POST|PUT|DELETE) (/v1/\S*)(?: (.+))?")
_FIELD: Final = re.compile(r"[a-z_]+")
_API: Final = re.compile(r"(?:[A-Z][a-z]+){2,}")
_REASONS: Final = ("no: ", "not needed: ", "not yet", "[security.md]")


SEVERAL: Final = ("/v1/nodes", "/v1/partitions", "/coordinator")
"""The calls that are only for several nodes."""


class Row(NamedTuple):
    there: str
    here: str

    @property
    def codes(self) -> list[str]:
        return _CODE.findall(self.here)


ROWS: Final = [Row(*found) for found in _ROW.findall(PAGE.read_text())]


class Prepared:
    """The broker of a row, with what the page says that there is."""

    def __init__(self, broker: ottla.testing.Broker) -> None:
        self.broker = broker
        self.answer: Any = None
        broker.create_topic("orders", 3)
        assert self.call("POST", "/v1/faults", '{"on": {"api": "Heartbeat"}, "do": {"hold": true}}')["id"] == "f1"

    def make_group(self) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()

    def call(self, method: str, path: str, body: str) -> Any:
        """Makes a call, with a body as the page has it; returns what it answers. AssertionError if it is refused."""
        return call(self.broker.test_url, method, path, json.loads(body) if body else None)

    def run(self, code: str) -> bool:
        """Runs what stands as code in a row. Returns whether that proves anything."""
        if found := _CALL.fullmatch(code):
            self.answer = self.call(found[1], found[2], found[3] or "")
            if found[2] == "/v1/recording":
                AdminClient({"bootstrap.servers": self.broker.bootstrap}).list_topics(timeout=TIMEOUT_S)  # something to record
        elif code.startswith(("--", "ottla ")):
            self._run_words(shlex.split(code.removeprefix("ottla ")))
        elif _API.fullmatch(code):
            assert code in {api.name for api in served(BROKER).values()}, f"{code} is not served"
        elif _FIELD.fullmatch(code) and self.answer is not None:
            assert f'"{code}":' in json.dumps(self.answer), f"the answer has no {code}: {self.answer}"
        else:
            return False
        return True

    def _run_words(self, words: list[str]) -> None:
        if words[0] in cli.COMMANDS:
            done = CliRunner().invoke(app, words, env={"OTTLA_BOOTSTRAP": self.broker.bootstrap})
            assert done.exit_code == 0, done.output
            return
        options = cli.plain_options(cli.with_command(words))
        assert options is not None, f"ottla has no such options: {words}"
        config, _ = gather(options, {}, lambda path: b"")
        assert not config.unknown, f"there are no such settings: {config.unknown}"


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 90
    names = [name for row in ROWS for name in _CODE.findall(row.there) if name.startswith("rd_kafka")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=[row.there.partition("`, ")[0].strip("`") for row in ROWS])
def test_what_a_row_says_works_here(row: Row) -> None:
    nodes: dict[str, Any] = {"nodes": 3} if any(call in row.here for call in SEVERAL) else {}
    with ottla.testing.Broker(test_port=0, **nodes) as broker:
        prepared = Prepared(broker)
        if "billing" in row.here:
            prepared.make_group()
        proven = [prepared.run(code) for code in row.codes]
    assert any(proven) or row.here.startswith(_REASONS), "a row that proves nothing must say why"


def test_every_call_of_librdkafkas_mock_has_a_row() -> None:
    """The functions that the library exports, as it comes with confluent-kafka; the page is for one version of it."""
    libraries = [file.locate() for file in files("confluent-kafka") or () if re.match(r"librdkafka.*\.so", file.name)]
    assert len(libraries) == 1
    library = ctypes.CDLL(str(libraries[0]))
    names = re.findall(rb"rd_kafka_(?:handle_)?mock_[a-z_]+(?=\0)", Path(str(libraries[0])).read_bytes())
    exported = {name.decode() for name in names if hasattr(library, name.decode())}  # the others are its own
    assert len(exported) > 50
    rows = {name for row in ROWS for name in _CODE.findall(row.there) if name.startswith("rd_kafka")}
    assert exported == rows, f"the page is for librdkafka 2.16; this is {confluent_kafka.libversion()[0]}"


def test_a_row_that_lies_is_seen() -> None:
    with ottla.testing.Broker(test_port=0) as broker:
        prepared = Prepared(broker)
        lies = (
            "GET /v1/nothing",
            'POST /v1/faults {"do": {"eror": 1}}',
            "--override num.partitionss=1",
            "--no-such 1",
            "SuchRequest",
        )
        for code in (*lies, "ottla topic delete payments --yes"):
            with pytest.raises(AssertionError):
                prepared.run(code)
        prepared.run("GET /v1/faults/f1")
        with pytest.raises(AssertionError, match="the answer has no hitz"):
            prepared.run("hitz")
