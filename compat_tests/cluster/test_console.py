"""Partitions are moved by the console's forms, in a cluster of each kind: what was looked at is done, progress is seen, a move is
cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from compat_tests.cluster.mixed import Mixed
from compat_tests.console.running import Visitor, console
from compat_tests.waiting import wait_for

AT = "/broker/reassignments"


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    made = Mixed(tmp_path_factory.mktemp(f"console-{request.param}"), [request.param] * 3)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_partitions_are_moved_as_was_looked_at(cluster: Mixed) -> None:
    cluster.create("moved", [[1, 2], [2, 1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(200):
        producer.produce("moved", b"x" * 1000, partition=number % 2)
    assert producer.flush(60) == 0
    with console(cluster.bootstrap) as address:
        visitor = Visitor(address)
        preview = visitor.get(f"{AT}/new?topic=moved&to=3,1&rotate=1")
        assert preview.cells[6:11] == ["0", "1, 2", "3, 1", "3", "2"]
        assert preview.cells[12:17] == ["1", "2, 1", "1, 3", "3", "2"]
        assert "would be copied" in preview.text
        path = f"{AT}/new?topic=moved"
        assert visitor.post(path, preview, typed="no").status == 400
        page = visitor.post(path, preview, typed="moved")
        assert (page.status, page.location) == (303, AT), page.text
        assert visitor.get(AT).status == 200
        cluster.wait_for_isr("moved", [[1, 3], [1, 3]])
        wait_for(lambda: visitor.get(AT).cells[7:] == ["None."], lambda: str(visitor.get(AT).cells))
        wait_for(lambda: visitor.get("/topics/moved").cells[11::9] == ["3, 1", "1, 3"], "the console sees the new replicas")
        page = visitor.post(path, preview, typed="moved")
        assert (page.status, "by now; look at it again" in page.text) == (400, True)


def test_a_move_is_cancelled(cluster: Mixed) -> None:
    """Broker 3 is down, so that the move cannot be done before that."""
    cluster.create("stays", [[1, 2]])
    with console(cluster.bootstrap) as address:
        visitor = Visitor(address)
        preview = visitor.get(f"{AT}/new?topic=stays&to=1,3")
        cluster.brokers[3].kill()
        page = visitor.post(f"{AT}/new?topic=stays", preview, typed="stays")
        assert (page.status, page.location) == (303, AT), page.text
        wait_for(lambda: visitor.get(AT).cells[7:12] == ["stays", "0", "1, 3, 2", "3", "2"], lambda: str(visitor.get(AT).cells))
        assert "3: ▲ begins" in visitor.get(AT).cells[12]
        path = f"{AT}/cancel?topic=stays&partition=0"
        form = visitor.get(path)
        assert "stays [0]: from 1, 3, 2 back to 1, 2" in form.text
        assert visitor.post(path, form, typed="stays").status == 303
        wait_for(lambda: visitor.get(AT).cells[7:] == ["None."], lambda: str(visitor.get(AT).cells))
        wait_for(lambda: visitor.get("/topics/stays").cells[11] == "1, 2", "the replicas are those of before")
    cluster.brokers[3].start()
