"""Kafka's own Java classes as a process to ask: `KafkaOracle` starts tests/wire/KafkaLogOracle.java and talks in lines.

Kafka's jars come by Maven (compat_tests/reference/maven.py); nothing of Kafka is in this repository.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ottla.wire.records import Record
from tests.java_oracle import JavaOracle

SOURCE = Path(__file__).parent / "wire" / "KafkaLogOracle.java"


def as_word(record: Record) -> str:
    """A record in the form of the oracle's lines."""
    parts = [str(record.timestamp_ms), as_hex(record.key), as_hex(record.value)]
    parts += (f"{as_hex(name.encode())}={as_hex(value)}" for name, value in record.headers)
    return ",".join(parts)


def as_hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


class KafkaOracle(JavaOracle):
    """One Java process. Not for several threads."""

    def __init__(self) -> None:
        super().__init__(SOURCE)
        command = self.command(options=("-Xmx512m", f"-Djava.io.tmpdir={self._work.name}"))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert not answer.startswith("exception"), answer
        return answer

    def build(
        self,
        records: list[Record],
        codec: str = "none",
        level: object = "-",
        *,
        base_offset: int = 0,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> bytes:
        """A batch written by Kafka's MemoryRecordsBuilder, which is what the Java producer writes with."""
        words = map(as_word, records)
        return bytes.fromhex(self.ask("build", codec, level, base_offset, *producer, str(transactional).lower(), *words))

    def read(self, batch: bytes) -> tuple[str, list[str]]:
        """(codec/timestamp type/maximum timestamp, records as words with their offset in front) as Kafka reads the batch."""
        what, *records = self.ask("read", batch.hex()).split(" ")
        return what, records

    def files(self) -> dict[str, bytes]:
        """Files of the open log's directory, but for its indexes."""
        pairs = (word.partition("=") for word in self.ask("files").split(" "))
        return {name: bytes.fromhex(content) for name, _, content in pairs}

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
        super().close()
