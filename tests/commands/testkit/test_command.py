"""`ottla testkit`: each command reaches the call that it stands for, with what its options say, and a refusal is one line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

import ottla.testing
from ottla.commands.testkit import port
from ottla.commands.testkit.command import COLUMNS, Do, On, Rules
from ottla.server.program.app import app

NOWHERE = {port.URL: None, port.READY_FILE: None, port.TOKEN: None}
Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def running() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker(test_port=0) as broker:
        yield broker


@pytest.fixture
def broker(running: ottla.testing.Broker) -> ottla.testing.Broker:
    running.reset()
    return running


def ran(line: str, **environment: str | None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    done = CliRunner().invoke(app, ["testkit", *shlex.split(line)], catch_exceptions=False, env={**NOWHERE, **environment})
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def run(broker: ottla.testing.Broker) -> Run:
    return lambda line: ran(line, **{port.URL: broker.test_url})


def answer(run: Run, line: str) -> Any:
    code, out, errors = run(line)
    assert code == 0, errors
    return json.loads(out)


FAULTS: dict[str, dict[str, Any]] = {
    "--api FindCoordinator --error COORDINATOR_NOT_AVAILABLE": {
        "on": {"api": ["FindCoordinator"]},
        "do": {"error": "COORDINATOR_NOT_AVAILABLE"},
    },
    "--api Produce --api Fetch --topic 'o*' --partition 0 --partition 1 --error NONE --error UNKNOWN_SERVER_ERROR --message no": {
        "on": {"api": ["Produce", "Fetch"], "topic": ["o*"], "partition": [0, 1]},
        "do": {"error": ["NONE", "UNKNOWN_SERVER_ERROR"], "message": "no"},
        "times": 2,
    },
    "--api Produce --where acks=-1 --where transactional_id=t --version '>=9' --client-id 'a*' --client-host x --throttle-ms 5": {
        "on": {
            "api": ["Produce"],
            "client_id": ["a*"],
            "client_host": ["x"],
            "version": ">=9",
            "where": {"acks": -1, "transactional_id": "t"},
        },
        "do": {"throttle_ms": 5},
    },
    "--group g --node 1 --delay-ms 5 --jitter-ms 2 --times 3 --on-call 2 --probability 0.5 --for-ms 1000 --act after": {
        "on": {"group": ["g"], "node": [1]},
        "do": {"delay_ms": 5, "jitter_ms": 2},
        "times": 3,
        "on_call": 2,
        "probability": 0.5,
        "for_ms": 1000,
        "act": "after",
    },
    "--transactional-id t --hold": {"on": {"transactional_id": ["t"]}, "do": {"hold": True}},
    "--resource u --error NONE --top-level": {"on": {"resource": ["u"]}, "do": {"error": "NONE", "top_level": True}},
    "--disconnect reset": {"do": {"disconnect": "reset"}},
    "--blackhole --times -1": {"do": {"blackhole": True}, "times": -1},
    "--drip 10:20": {"do": {"drip": {"bytes": 10, "every_ms": 20}}},
    "--cut-after 0": {"do": {"cut_after": 0}},
    "--corrupt crc": {"do": {"corrupt": "crc"}},
    "--observe": {"do": {"observe": True}},
}


@pytest.mark.parametrize("options", FAULTS)
def test_a_fault_is_what_its_options_say(options: str, run: Run) -> None:
    installed = answer(run, f"fault {options}")
    expected = {"on": {}, **FAULTS[options]}
    assert {name: installed.get(name) for name in expected} == expected


def test_every_option_of_a_fault_is_tried() -> None:
    """So each is a field that the broker knows, which its refusals of unknown ones show."""
    tried = {word.removeprefix("--").replace("-", "_") for line in FAULTS for word in shlex.split(line) if word.startswith("--")}
    assert tried == {*On._fields, *Do._fields, *Rules._fields}


def test_faults_are_listed_released_and_removed(run: Run) -> None:
    first, second = (answer(run, f"fault --api Fetch {do}")["id"] for do in ("--hold", "--observe"))
    code, out, _ = run("faults")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[0] for row in rows] == [first, second]
    assert dict(zip(COLUMNS, rows[1], strict=True))["Left"] == "for ever"
    assert [each["id"] for each in answer(run, "faults --json")] == [first, second]
    assert answer(run, f"release {first}")["released"] == 0
    assert answer(run, f"remove {first}")["id"] == first
    assert [each["id"] for each in answer(run, "remove")] == [second]
    assert answer(run, "faults --json") == []


def test_time_moves_and_the_broker_is_reset_and_restarted(run: Run, broker: ottla.testing.Broker) -> None:
    before_ms = answer(run, "call get v1/clock")["now_ms"]
    assert answer(run, "advance --days 1 --hours 1 --minutes 1 --seconds 1.5")["now_ms"] >= before_ms + 90_061_500
    assert answer(run, "state")["bootstrap"] == broker.bootstrap
    assert answer(run, "restart --how kill --down-ms 10")["bootstrap"] == broker.bootstrap
    fault = answer(run, "fault --observe")["id"]
    answer(run, "reset --keep faults")
    assert [each["id"] for each in answer(run, "faults --json")] == [fault]
    answer(run, "reset")
    assert answer(run, "faults --json") == []


def test_any_call_can_be_made(run: Run) -> None:
    assert answer(run, """call PUT /v1/topics/orders '{"partitions": 3}'""") == {"name": "orders", "partitions": 3}


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("fault --api Prodce --observe", 1, "ottla: on.api: 'Prodce' is no API that is served; did you mean Produce?\n"),
        ("fault --api Produce", 1, "ottla: do must have exactly one of "),
        ("release f0", 1, "ottla: there is no fault f0"),
        ("call GET /v1/nothing", 1, "ottla: there is no /v1/nothing"),
        ("call POST /v1/reset '{'", 2, "is not JSON"),
        ("advance", 2, "say by how much"),
        ("fault --drip 10", 2, "is not BYTES:MS"),
        ("fault --where acks", 2, "is not FIELD=VALUE"),
    ],
)
def test_what_is_wrong_is_said(line: str, code: int, text: str, run: Run) -> None:
    done = run(line)
    assert done[:2] == (code, "")
    assert text in done[2]
