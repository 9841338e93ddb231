"""The console that a broker starts by itself: with the first request, again after a death, and gone with the broker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.commands import environment
from compat_tests.console.running import Visitor, broker
from compat_tests.waiting import wait_for


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_console_comes_with_the_first_request_and_again_after_its_death_and_goes_with_the_broker(tmp_path: Path) -> None:
    with broker(tmp_path / "data") as (process, bootstrap, url):
        assert children(process) == []
        visitor = Visitor(url)
        assert "This broker</a> serves clients" in visitor.get("/").text
        (child,) = children(process)
        page = visitor.post("/requests", visitor.get("/requests"), client="app", n="1", seconds="60")
        assert (page.status, page.location) == (303, "/requests")
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": "app"})
        producer.produce("orders", "x")
        assert producer.flush(60) == 0
        wait_for(lambda: "The watch is over" in visitor.get("/requests").text, "a request of the client is seen")
        assert visitor.get("/requests").cells[10] == "app"
        assert "app" in visitor.get("/inside").cells
        os.kill(child, signal.SIGKILL)
        assert visitor.get("/inside").status == 200  # the session goes on in the next one
        (second,) = children(process)
        assert second != child
        producer.produce("orders", "y")
        assert producer.flush(60) == 0
        process.terminate()
        assert process.wait(30) == 0
        wait_for(lambda: not Path(f"/proc/{second}").exists(), "the console has ended")
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_who_logs_out_stays_so_when_the_console_is_another_process(tmp_path: Path) -> None:
    with broker(tmp_path / "data") as (process, _, url):
        leaves, stays = Visitor(url), Visitor(url)

        def next_console() -> None:
            (child,) = children(process)
            os.kill(child, signal.SIGKILL)
            assert stays.get("/topics").status == 200

        next_console()
        cookie = leaves.cookie
        assert leaves.post("/logout", leaves.get("/new-topic")).status == 303
        leaves.cookie = cookie  # as one who has kept it
        assert leaves.get("/topics").status == 401
        next_console()
        assert leaves.get("/topics").status == 401


def test_a_port_that_is_taken_and_another_host_are_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for words, says in (
            (("--console-port", str(taken.getsockname()[1])), "ottla: ottla.console.port: 127.0.0.1:"),
            (
                ("--console-port", "0", "--override", "ottla.console.host=0.0.0.0"),
                "ottla: ottla.console.host: other machines reach 0.0.0.0",
            ),
        ):
            command = [sys.executable, "-m", "ottla", "--port", "0", "--data-dir", str(tmp_path / "data"), *words]
            ended = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
            assert ended.returncode == 1
            assert ended.stderr.startswith(says)
            assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [(), ("--console-no-token",)])
def test_what_no_access_rule_covers_needs_the_token(tmp_path: Path, words: tuple[str, ...]) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    everybody = "super.users=User:ANONYMOUS"
    with broker(tmp_path / "data", "--override", authorizer, "--override", everybody, *words) as (_, _, url):
        page = Visitor(url).get("/inside")
        assert ("is only shown with a token" in page.text) == bool(words)
        assert ("Inside broker 1" in page.text) != bool(words)
