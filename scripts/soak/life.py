"""One broker under the load of a soak, killed now and then or never, and what is measured of it: a process of its own.

    python -m scripts.soak.life --seconds 7200 --kill-every 60 --directory DIRECTORY --out FILE

Writes a JSON object a line to FILE: samples (`t` in seconds since the beginning), one line for each start, one for each check,
and what failed. The exit code is 1 if something did.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from random import Random
from typing import Any, Final, TextIO
from urllib.request import urlopen

from compat_tests.brokers import Ottla
from compat_tests.reference.kafka import HOST, BrokerFailed, free_port
from scripts.soak.client import Refused
from scripts.soak.load import Load
from scripts.soak.samples import Ruler, percentile, tree, usage

SAMPLE_S: Final = 10.0
CHECK_S: Final = 60.0
METRICS_S: Final = 600.0
RUSH_S: Final = 0.3
"""Before a kill the load goes on without a pause, so that it hits a request."""
SETTINGS: Final = {
    "log.retention.check.interval.ms": "10000",
    "log.roll.ms": "60000",
    "log.cleaner.min.cleanable.ratio": "0.2",
    "log.cleaner.delete.retention.ms": "60000",
    "log.segment.delete.delay.ms": "10000",
    "producer.id.expiration.ms": "300000",
    "producer.id.expiration.check.interval.ms": "30000",
    "transactional.id.expiration.ms": "300000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "30000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000",
    "offsets.retention.minutes": "5",
    "offsets.retention.check.interval.ms": "30000",
    "share.coordinator.state.topic.prune.interval.ms": "30000",
    "share.coordinator.snapshot.update.records.per.snapshot": "10",
    "max.incremental.fetch.session.cache.slots": "50",
    "metadata.log.max.snapshot.interval.ms": "60000",
    "metadata.log.segment.ms": "60000",
    "metadata.max.retention.ms": "120000",
}
"""Everything that expires does so within minutes: what still grows after that, grows for ever."""


class Life:
    """A broker, its load, and the measuring of it. All in one thread, but for the kill."""

    def __init__(self, directory: Path, kill_every: float, pause: float, seed: int, out: TextIO) -> None:
        self.metrics_port = free_port()
        self.broker = Ottla(directory, {**SETTINGS, "ottla.metrics.port": str(self.metrics_port)})
        self.ruler = Ruler()
        self.load = Load(self.broker.port, self.ruler.measure)
        self.began = self.started = time.monotonic()
        self._kill_every, self._pause, self._random, self._out = kill_every, pause, Random(seed), out
        self._directory = directory
        self._killed, self._kills_at = threading.Event(), float("inf")
        self._sample_at = self._check_at = self._metrics_at = 0.0
        self._cpu = 0.0
        self.kills = 0

    def say(self, kind: str, **what: Any) -> None:
        print(json.dumps({"kind": kind, "t": round(time.monotonic() - self.began, 2), **what}), file=self._out, flush=True)

    def run(self, seconds: float) -> None:
        """Raises AssertionError for a broken promise, BrokerFailed or OSError if the broker ends by itself, and Refused."""
        self.broker.start()
        self.load.prepare()
        self._alive(0.0)
        self._check_at = time.monotonic() + CHECK_S
        while (now := time.monotonic()) - self.began < seconds:
            try:
                self.load.round()
                self._due(now)
            except (OSError, Refused) as error:
                if not self._killed.is_set():
                    raise
                self._again(error)
                continue
            if now < self._kills_at - RUSH_S:
                time.sleep(max(now + self._pause - time.monotonic(), 0))  # the rate of the load
        self._kills_at = float("inf")
        if self._killed.is_set():
            self._again(None)
        self.say("check", records=self.load.check())

    def _alive(self, start_s: float) -> None:
        """Begins what belongs to one process of the broker."""
        self.started, self._cpu = time.monotonic(), 0.0
        self._sample_at = self.started + SAMPLE_S
        self._killed.clear()
        self.say("start", start_s=start_s)
        if self._kill_every:
            self._kills_at = self.started + self._kill_every * self._random.uniform(0.75, 1.25)
            process = self.broker.process
            assert process is not None
            timer = threading.Timer(self._kills_at - self.started, self._kill, (process.pid,))
            timer.daemon = True
            timer.start()

    def _kill(self, pid: int) -> None:
        if self._kills_at < float("inf"):
            self._killed.set()
            os.kill(pid, signal.SIGKILL)

    def _again(self, error: Exception | None) -> None:
        """Starts the killed broker on its directory, and asks it for everything; if it is killed meanwhile, once more."""
        while self._killed.is_set():
            self.kills += 1
            self.load.disconnect()
            self.broker.kill()  # it is dead: takes its exit status
            began = time.monotonic()
            self.broker.start()
            start_s = time.monotonic() - began
            self._alive(start_s)
            try:
                self.load.connect()
                self.load.waits.clear()
                self.load.rulers.clear()
                self.say("check", records=self.load.check(), cut=repr(error))
            except (OSError, Refused) as again:
                if not self._killed.is_set():
                    raise
                error = again

    def _due(self, now: float) -> None:
        if now >= self._sample_at and self.load.waits:
            self._sample_at += SAMPLE_S
            self.sample()
        if now >= self._check_at and not self._kill_every:
            self._check_at += CHECK_S
            self.say("check", records=self.load.check())
        if now >= self._metrics_at and not self._kill_every:
            self._metrics_at = now + METRICS_S
            with urlopen(f"http://{HOST}:{self.metrics_port}/metrics") as answer:
                (self._directory / f"metrics-{int(now - self.began):05}.txt").write_bytes(answer.read())

    def sample(self) -> None:
        process = self.broker.process
        assert process is not None
        taken = usage(process.pid)
        total = taken.pop("cpu_s")
        cpu_s, self._cpu = total - self._cpu, total
        size, files = tree(self.broker.data_dir)
        waits, rulers = self.load.waits, self.load.rulers
        self.say(
            "sample",
            age_s=round(time.monotonic() - self.started, 1),
            **{name: round(value, 3) for name, value in taken.items()},
            cpu_s=round(cpu_s, 2),
            data_mib=round(size, 3),
            files=files,
            rounds=self.load.rounds,
            produced=len(waits),
            p50_ms=round(percentile(waits, 0.5) * 1e3, 3),
            p99_ms=round(percentile(waits, 0.99) * 1e3, 3),
            ruler_p50_ms=round(percentile(rulers, 0.5) * 1e3, 3),
            ruler_p99_ms=round(percentile(rulers, 0.99) * 1e3, 3),
        )
        waits.clear()
        rulers.clear()


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds, on average; 0 is never")
    parser.add_argument(
        "--pause", type=float, default=0.5, help="seconds from the beginning of one round of load to that of the next"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with options.out.open("w") as out:
        life = Life(options.directory, options.kill_every, options.pause, options.seed, out)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            life.run(options.seconds)
        except (AssertionError, BrokerFailed, OSError, Refused) as error:
            life.say("failed", what=f"{type(error).__name__}: {error}", where=traceback.format_exc())
            return 1
        finally:
            life.broker.kill()
            life.ruler.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
