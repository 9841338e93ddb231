"""`ottla testkit replay`, with the whole program against brokers in this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from ottla.commands.output import Failure
from ottla.commands.testkit.command import app
from ottla.commands.testkit.replay import read_recording
from ottla.testing import Broker
from ottla.wire.messages import create_topics, list_groups, metadata, produce
from tests.asking import ask
from tests.log.support import batch
from tests.server.testkit.under_test import frame_of

AT = "2040-01-01T00:00:00Z"
TOPICS = create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 1, 1)])


def standing(seed: int) -> Broker:
    """A broker for the same answers each time, but for its address."""
    return Broker(seed=seed, advertised_listeners="PLAINTEXT://127.0.0.1:9092")


async def converse(port: int) -> None:
    await ask(port, create_topics, 7, TOPICS)
    await ask(port, metadata, 12, metadata.MetadataRequest(None))
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch())])]
    await ask(port, produce, 9, produce.ProduceRequest(None, -1, 1000, data))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Returns the file with what three requests on three connections were, to a broker of seed 7."""
    with standing(7) as broker:
        broker.clock.freeze()
        broker.clock.set(AT)
        broker.record(records=True)
        asyncio.run(converse(broker.port))
        (tmp_path / "frames.json").write_text(broker.frames())
    return tmp_path / "frames.json"


def test_it_is_a_command() -> None:
    assert "replay" in {command.name for command in app.registered_commands}


def run(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "KAFKA_"))}
    command = [sys.executable, "-m", "ottla", "testkit", "replay", str(file), "--timeout", "5", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def replayed(file: Path, seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Replays them at a broker of this seed, and returns what comes of them."""
    with standing(seed) as broker:
        broker.clock.freeze()
        broker.clock.set(AT)
        return run(file, "-b", f"127.0.0.1:{broker.port}", *arguments)


def test_the_same_broker_answers_the_same(recorded: Path) -> None:
    ran = replayed(recorded, 7)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split("\t") for line in ran.stdout.splitlines()] == [
        ["1", "1", "CreateTopics", "7", "same", ""],
        ["2", "2", "Metadata", "12", "same", ""],
        ["3", "3", "Produce", "9", "same", ""],
    ]


def test_another_broker_differs_in_fields_that_are_named(recorded: Path) -> None:
    ran = replayed(recorded, 8, "--json")
    assert ran.returncode == 1
    assert ran.stderr == "ottla: 2 of 3 answers are not the recorded ones\n"
    first, second, third = map(json.loads, ran.stdout.splitlines())
    assert first["differs_in"] == ["topics[0].topic_id"]
    assert (first["answer"], third["answer"]) == ("different", "same")
    assert second["differs_in"] == ["cluster_id", "topics[0].topic_id"]
    assert second["response"]["topics"][0]["name"] == "t"


def test_what_was_not_recorded(recorded: Path, tmp_path: Path) -> None:
    frames: list[dict[str, Any]] = json.loads(recorded.read_text())
    frames[0]["response"] = None  # it waited for its answer
    frames[1]["request"] = None  # it was too long
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch())])]
    silent = frame_of(produce, 9, produce.ProduceRequest(None, 0, 1000, data), "app")
    for frame in (silent, frame_of(list_groups, 2, list_groups.ListGroupsRequest(), "app")):
        sent = b64encode(len(frame).to_bytes(4, "big") + frame).decode()
        frames.append({**frames[2], "seq": len(frames) + 1, "request": sent, "response": None})
    frames[3]["outcome"] = "no answer wanted"
    (tmp_path / "frames.json").write_text(json.dumps(frames))
    ran = replayed(tmp_path / "frames.json", 7)
    assert [line.split("\t")[4] for line in ran.stdout.splitlines()] == ["new", "not sent", "same", "same", "new"]
    assert ran.returncode == 0, ran.stderr


def test_no_answer_and_a_new_connection_for_the_rest(recorded: Path) -> None:
    frames: list[dict[str, Any]] = json.loads(recorded.read_text())
    for frame in frames:
        frame["connection"] = 1
    recorded.write_text(json.dumps(frames))
    with standing(7) as broker:
        broker.clock.freeze()
        broker.clock.set(AT)
        broker.fault(api="CreateTopics", disconnect="close")
        ran = run(recorded, "-b", f"127.0.0.1:{broker.port}", "--json")
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["answer"] for each in results] == ["none", "different", "different"]
    assert "the broker closed the connection" in results[0]["differs_in"][0]
    assert ran.returncode == 1


@pytest.mark.parametrize("content", ["{}x", '[{"seq": 1}]', "[3]", "null"])
def test_a_file_of_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "f").write_text(content)
    with pytest.raises(Failure, match="is not the answer to GET"):
        read_recording(tmp_path / "f")


def test_a_file_without_frames(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("[]")
    with pytest.raises(Failure, match="there are no frames in it; record some requests first"):
        read_recording(tmp_path / "f")


def test_no_file_and_no_broker(recorded: Path, tmp_path: Path) -> None:
    ran = run(tmp_path / "none")
    assert (ran.returncode, ran.stderr) == (1, f"ottla: {tmp_path}/none: No such file or directory\n")
    ran = run(recorded, "-b", "127.0.0.1:1")
    assert (ran.returncode, ran.stderr) == (1, "ottla: 127.0.0.1:1: Connection refused\n")
    ran = run(recorded, "-b", "somewhere")
    assert ran.returncode == 2
    assert "somewhere is not host:port" in ran.stderr
