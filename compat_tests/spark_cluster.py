"""A standalone Spark cluster on loopback: a master and workers of one core each, as processes from pyspark's own jars.

    with SparkCluster(directory, workers=2) as cluster: ... cluster.master, cluster.settings

`settings` let an application wait for all workers before its first task, and write an event log, from which `workers_with_work`
shows which worker did what. Ports are free ones, everything lies in the directory, and the processes end by their ids.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from compat_tests.reference.jvm import SMALL
from compat_tests.reference.kafka import HOST, end_process, free_port
from compat_tests.waiting import wait_for

SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """Started and ended by `with`."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.directory = directory
        self.number_of_workers = workers
        self.port, self.page = free_port(), free_port()
        self.events = directory / "events"
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.cores.max": str(self.number_of_workers),
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }

    def __enter__(self) -> SparkCluster:
        self.events.mkdir(parents=True)
        try:
            self._start(
                "master", "org.apache.spark.deploy.master.Master", "--port", str(self.port), "--webui-port", str(self.page)
            )
            for number in range(self.number_of_workers):
                self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g",
                            "--webui-port", str(free_port()), "--work-dir", str(self.work_of(number)), self.master)  # fmt: skip
            wait_for(self._is_ready, f"{self.number_of_workers} workers at {self.master}", timeout_s=90)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def work_of(self, number: int) -> Path:
        """Returns the directory in which a worker keeps its executors' directories: <application>/<executor>."""
        return self.directory / f"work-{number}"

    def _start(self, name: str, program: str, *arguments: str) -> None:
        environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(SMALL),
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), program, "--host", HOST, *arguments]
        with open(self.directory / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _is_ready(self) -> bool:
        for process in self.processes:
            assert process.poll() is None, "\n".join(log.read_text()[-2000:] for log in self.directory.glob("*.log"))
        try:
            with urlopen(f"http://{HOST}:{self.page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"]) == self.number_of_workers
        except (URLError, TimeoutError, ConnectionError):
            return False

    def _end(self) -> None:
        for process in reversed(self.processes):  # workers first, and they end their executors
            end_process(process.pid, signal.SIGTERM)
            process.wait()
        self.processes = []

    def workers_with_work(self, application: str) -> Counter[int]:
        """Worker -> tasks that ended well there, of the applications of this name, by Spark's event log."""
        found: Counter[int] = Counter()
        for path in self.events.iterdir():
            events = [json.loads(line) for line in path.read_text().splitlines()]
            (begin,) = (event for event in events if event["Event"] == "SparkListenerApplicationStart")
            if begin["App Name"] == application:
                ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
                done = [end["Task Info"]["Executor ID"] for end in ends if end["Task End Reason"]["Reason"] == "Success"]
                found.update(self._worker_of(begin["App ID"], executor) for executor in done)
        return found

    def _worker_of(self, application_id: str, executor: str) -> int:
        """Each worker keeps a directory for every executor that it runs."""
        numbers = range(self.number_of_workers)
        (worker,) = (number for number in numbers if (self.work_of(number) / application_id / executor).is_dir())
        return worker
