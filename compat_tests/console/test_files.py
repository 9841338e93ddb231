"""The console beside a data directory of ottla and of Apache Kafka, running and damaged: it shows what DumpLogSegments shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.brokers import Address
from compat_tests.commands import made
from compat_tests.console.running import Page, Visitor, console
from compat_tests.test_dump_log_segments import CODECS, dump_log_segments
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

FIRST = f"{0:020d}.log"

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture(scope="module")
def data_dir(broker: Address) -> Path:
    return Path(broker.log_file).parent / "data"


@pytest.fixture(scope="module")
def written(bootstrap: str) -> str:
    """A topic with a batch of each codec, and an aborted transaction with its marker."""
    topic = made(bootstrap, 1)
    random = Random(1)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
        for number in range(20):
            producer.produce(topic, 20 * random.randbytes(4).hex(), str(number), partition=0, timestamp=TODAY_MS + number)
        assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "aborted", partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    ends = AdminClient({"bootstrap.servers": bootstrap})
    wait_for(lambda: end(ends, topic, COMMITTED) == end(ends, topic, UNCOMMITTED), "the marker is written")
    return topic


def end(admin: AdminClient, topic: str, isolation: IsolationLevel) -> int:
    partition = TopicPartition(topic, 0)
    asked = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation)
    return int(asked[partition].result(60).offset)


def rows(page: Page) -> list[list[str]]:
    """Returns the rows of the table of batches: position, offsets, records, bytes, codec ..."""
    assert page.status == 200, page
    table = page.text.partition("<caption>Batches</caption>")[2].partition("</table>")[0]
    return [Page(200, row, None).cells for row in table.split("<tr>")[2:]]


def check_like_kafka(page: Page, log: Path) -> int:
    """Holds the batches of a page against those of Kafka's tool; returns how many are not sound."""
    out = dump_log_segments([log])
    theirs = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+).* position: (\d+) .*"
        r"size: (\d+) .*compresscodec: (\w+) .*isvalid: (\w+)",
        out,
        re.MULTILINE,
    )
    ours = [row for row in rows(page) if len(row) == 8]
    assert len(theirs) >= 7
    assert [(row[1], row[2], row[0], row[3], row[4], "✕ damaged" in row[7]) for row in ours] == [
        (f"{int(first):,}–{int(last):,}", f"{int(count):,}", f"{int(at):,}", f"{int(size):,}", codec, valid == "false")
        for first, last, count, at, size, codec, valid in theirs
    ]
    return sum("✕ damaged" in row[7] for row in ours)


def test_a_running_brokers_files(bootstrap: str, data_dir: Path, written: str, tmp_path: Path) -> None:
    path = f"/files/{written}-0"
    with console(bootstrap, "--data-dir", str(data_dir)) as address:
        visitor = Visitor(address)
        page = visitor.get("/files")
        assert "A broker is running on this directory" in page.text
        assert "__cluster_metadata-0" in page.cells
        page = visitor.get(path)
        assert "as the cluster has them" in page.text
        page = visitor.get(f"{path}/{FIRST}")
        shutil.copy(data_dir / f"{written}-0" / FIRST, tmp_path / FIRST)
        assert check_like_kafka(page, tmp_path / FIRST) == 0
        assert "Every batch and index of this segment is sound" in page.text
        assert {row[4] for row in rows(page)} == set(CODECS)
        assert rows(page)[-1][7].startswith("ABORT marker")
        for row in rows(page):
            batch = visitor.get(f"{path}/{FIRST}?batch={row[0].replace(',', '')}")
            assert "The CRC agrees with the bytes" in batch.text
        metadata = visitor.get(f"/files/__cluster_metadata-0/{FIRST}?records=1")
        assert metadata.status == 200
        assert "Record" in "".join(metadata.cells)
        assert visitor.get("/file/meta.properties").status == 200
        assert visitor.get(f"{path}/partition.metadata").status == 200
        assert visitor.get("/topics").status == 200


def test_a_damaged_copy(data_dir: Path, written: str, tmp_path: Path) -> None:
    shutil.copytree(data_dir / f"{written}-0", tmp_path / f"{written}-0")
    log = tmp_path / f"{written}-0" / FIRST
    path = f"/files/{written}-0/{FIRST}"
    with console("", "--data-dir", str(tmp_path)) as address:
        visitor = Visitor(address)
        second = int(rows(visitor.get(path))[1][0].replace(",", ""))
        data = bytearray(log.read_bytes())
        data[second + 100] ^= 0x40
        log.write_bytes(data + data[:200])  # a flipped bit, and a tail that is torn
        page = visitor.get(path)
        assert check_like_kafka(page, log) == 1
        assert rows(page)[-1][-1].startswith("✕ no batch")
        assert "ottla log repair --dry-run" in page.text
        assert "✕ Damaged" in visitor.get(f"{path}?batch={second}").text
