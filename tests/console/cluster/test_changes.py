"""Changes of topics hold their client until the answer is there, since with the client goes its request."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.console.cluster import changes
from ottla.console.cluster.source import Source


class Client:
    """Has the methods of an AdminClient that change topics; `lost` is called once a request is under way."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    def _asked(self, *_: object, **__: object) -> dict[str, Any]:
        self._lost()
        return {"t": Answer(weakref.ref(self))}

    create_topics = delete_topics = create_partitions = delete_records = _asked


class Answer(Future[None]):
    """Comes only if the client is still there."""

    def __init__(self, client: weakref.ref[Client]) -> None:
        super().__init__()
        self._client = client

    def result(self, timeout: float | None = None) -> None:
        assert self._client() is not None, "the request has gone with its client"


@pytest.mark.parametrize(
    "change",
    [
        lambda source: changes.create_topic(source, "t", 1, 1, {}),
        lambda source: changes.delete_topic(source, "t"),
        lambda source: changes.add_partitions(source, "t", 2),
        lambda source: changes.delete_records(source, Partition("t", 0), 5),
    ],
)
def test_another_page_that_lets_go_of_the_client_does_not_end_a_change(
    change: Callable[[Source], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1"})
    source = Source(cluster)
    monkeypatch.setattr(cluster, "admin", lambda: Client(source.lost))
    change(source)
