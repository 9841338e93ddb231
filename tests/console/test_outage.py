"""A broker that dies while a page waits for it: the console lives on, and all pages are there again when the broker is."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.reference.kafka import free_port
from compat_tests.waiting import wait_for

TOKEN = "0123456789abcdef"
LATE = """
import os, signal, sys
from ottla.commands.groups import reset
from ottla.commands.clients.client import Cluster

cluster, broker = Cluster({"bootstrap.servers": sys.argv[1]}), int(sys.argv[2])
ours = cluster.admin()
cluster.reach(ours)
cluster.timeout_s = 0.5
os.kill(broker, signal.SIGSTOP)
print(reset.committed_of(cluster, ours, ["g"]))
os.kill(broker, signal.SIGCONT)
ours.list_topics(timeout=30)  # is answered after what was asked before
"""


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a command of ottla until the end of the block, from the moment when it says that it is ready."""
    pipe, environment = subprocess.PIPE, {**os.environ, "OTTLA_CONSOLE_TOKEN": TOKEN}
    with subprocess.Popen([sys.executable, "-m", "ottla", *words], text=True, stdout=pipe, env=environment) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "ready" in line:
                    break
            yield process
        finally:
            process.kill()


def get(port: int, path: str, cookie: str = "") -> tuple[int, str]:
    """Returns the status, and the cookie that was set."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        answer.read()
        return answer.status, (answer.headers["Set-Cookie"] or "").partition(";")[0]


def until_shown(port: int, path: str, cookie: str) -> None:
    """Asks for a page until it is there: each time that waits for the console's own look at the broker."""
    wait_for(lambda: get(port, path, cookie)[0] == 200, f"{path} is there")


def is_asked(port: int) -> bool:
    """Returns whether something has arrived at the port that nobody has read yet: the process behind it is stopped."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(line[1].endswith(f":{port:04X}") and line[4].rpartition(":")[2] != "00000000" for line in lines)


def test_a_broker_that_dies_while_a_page_of_groups_waits(tmp_path: Path) -> None:
    at, port = free_port(), free_port()
    bootstrap = f"127.0.0.1:{at}"
    serve = ("serve", "--port", str(at), "--data-dir", str(tmp_path))
    with running(*serve) as broker:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        consumer.close()
        with running("console", "--bootstrap", bootstrap, "--port", str(port), "--timeout", "3") as console:
            _, cookie = get(port, f"/?token={TOKEN}")
            until_shown(port, "/group?id=g", cookie)
            broker.send_signal(signal.SIGSTOP)
            statuses: list[int] = []
            page = threading.Thread(target=lambda: statuses.append(get(port, "/groups", cookie)[0]))
            page.start()
            while page.is_alive() and not is_asked(at):
                pass
            page.join(0.5)  # what is asked first may not be the group yet, and nothing outside shows when it is
            broker.kill()
            page.join()
            assert statuses[0] in {200, 502, 504}  # the list of groups may be kept still
            with running(*serve):
                until_shown(port, "/group?id=g", cookie)
                until_shown(port, "/topics/t", cookie)
            assert console.poll() is None


def test_a_tail_goes_on_when_its_broker_is_back(tmp_path: Path) -> None:
    at, port = free_port(), free_port()
    bootstrap = f"127.0.0.1:{at}"
    serve = ("serve", "--port", str(at), "--data-dir", str(tmp_path))
    ask = ("console", "--bootstrap", bootstrap, "--port", str(port), "-X", "reconnect.backoff.max.ms=300")

    def produce(value: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("t", value)
        assert producer.flush(60) == 0

    with running(*serve) as broker, running(*ask) as console:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        _, cookie = get(port, f"/?token={TOKEN}")
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/topics/t/tail/events?at=0.0", headers={"Cookie": cookie})
            lines = connection.getresponse()
            produce("before")
            assert any(b'"before"' in line for line in lines)
            broker.kill()
            broker.wait()
            with running(*serve):
                produce("after")
                assert any(b'"after"' in line for line in lines)
        assert console.poll() is None


def test_a_coordinator_that_is_found_too_late_ends_no_process(tmp_path: Path) -> None:
    at = free_port()
    with running("serve", "--port", str(at), "--data-dir", str(tmp_path)) as broker:
        command = [sys.executable, "-c", LATE, f"127.0.0.1:{at}", str(broker.pid)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stdout) == (0, "({}, {'g': 'no answer within 0.5 s'})\n"), ended.stderr


def test_sigterm_does_not_wait_for_a_broker(tmp_path: Path) -> None:
    at, port = free_port(), free_port()
    with running("serve", "--port", str(at), "--data-dir", str(tmp_path)) as broker:
        with running("console", "--bootstrap", f"127.0.0.1:{at}", "--port", str(port), "--timeout", "20") as console:
            _, cookie = get(port, f"/?token={TOKEN}")
            broker.send_signal(signal.SIGSTOP)
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("GET", "/topics", headers={"Cookie": cookie})
                while not is_asked(at):
                    pass
                since = time.monotonic()
                console.send_signal(signal.SIGTERM)
                assert console.wait(60) == 0
                assert time.monotonic() - since < 10  # of the 20 that the page would take
