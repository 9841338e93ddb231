"""Takes pictures of the console's pages for docs/console.md: `python -m scripts.console_pictures [NAME...]`.

A broker with staged data runs beside this process, with its console, and Chromium (Debian's, or what OTTLA_CHROMIUM names)
looks at it, in light and in dark. A new page is one line in `PAGES`. A picture is 1100 pixels wide, a JPEG of less than 60 kB:
its quality and its height are lowered until it is. Pictures differ from run to run by times and offsets; take those again whose
page has changed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from compat_tests.console.chromium import chromium
from compat_tests.console.running import Visitor, broker
from compat_tests.test_commands_txn import open_transaction

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from playwright.sync_api import Page

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "console"
SCHEMES: Final = ("light", "dark")
WIDTH: Final = 1100
MAX_BYTES: Final = 60_000
_QUALITIES: Final = (75, 60, 50)
_HEIGHTS: Final = (620, 520, 420, 320)


class Picture(NamedTuple):
    """A page, and what has to be there before it is taken (a CSS selector); of a broker under test or of another."""

    name: str
    path: str
    ready: str = "h1"
    is_under_test: bool = False


PAGES: Final = (
    Picture("overview", "/", "svg.chart"),
    Picture("topics", "/topics"),
    Picture("topic", "/topics/orders"),
    Picture("messages", "/topics/orders/messages?n=14"),
    Picture("filters", "/topics/orders/messages?where=$.order.id+%3D+4711", "tbody td"),
    Picture("record", "/topics/orders/0/3"),
    Picture("tail", "/topics/orders/tail", "tbody tr:nth-child(8)"),
    Picture("transaction", "/transaction?id=till-7"),
    Picture("segment", f"/files/orders-0/{0:020d}.log"),
    Picture("inside", "/inside"),
    Picture("why", "/group/why?id=billing"),
    Picture("kit", "/test", is_under_test=True),
)


def main(names: Sequence[str]) -> int:
    """Takes the pictures of these names, or all. Returns the exit code."""
    wanted = [one for one in PAGES if one.name in names or not names]
    if unknown := set(names) - {one.name for one in PAGES}:
        print(f"no such picture: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for is_under_test in (False, True):
        take([one for one in wanted if one.is_under_test is is_under_test], ["--test-port", "0"] if is_under_test else [])
    return 0


def take(wanted: Sequence[Picture], words: Sequence[str]) -> None:
    """Takes pictures of a broker with these words more."""
    if not wanted:
        return
    with (
        TemporaryDirectory() as directory,
        broker(Path(directory) / "data", "--metrics-port", "0", *words) as (_, bootstrap, address),
        staged(bootstrap),
        browsing(address) as pages,
    ):
        if words:
            use_kit(address, bootstrap)
        for picture in wanted:
            for scheme in SCHEMES:
                path = file_of(picture, scheme)
                path.write_bytes(taken(pages[scheme], picture, address))
                print(f"{path.name}: {path.stat().st_size:,} bytes")


def use_kit(address: str, bootstrap: str) -> None:
    """Has a fault hit twice, and then the clock moved."""
    from confluent_kafka import Producer as Sender

    visitor = Visitor(address)
    fault = {"act": "fault", "api": "Produce", "topic": "invoices", "do": "answer with the error", "times": "2"}
    for form in (
        {"act": "record", "max": "1000"},
        {**fault, "value": "NOT_LEADER_OR_FOLLOWER"},
        {"act": "snapshot", "name": "seeded"},
        {"act": "advance", "by": "2", "unit": "days"},
    ):
        if form["act"] == "snapshot":
            producer = Sender({"bootstrap.servers": bootstrap, "client.id": "app", "log_level": 0})
            _send(producer, "invoices", 0, 1)
            assert producer.flush(60) == 0
        assert visitor.post("/test", visitor.get("/test"), **form).status == 303


def file_of(picture: Picture, scheme: str) -> Path:
    return FOLDER / f"{picture.name}-{scheme}.jpg"


@contextmanager
def browsing(address: str) -> Iterator[dict[str, Page]]:
    """Yields a page for each scheme, which the console has let in."""
    with chromium() as browser:
        pages: dict[str, Page] = {}
        for scheme in SCHEMES:
            context = browser.new_context(
                color_scheme="dark" if scheme == "dark" else "light", viewport={"width": WIDTH, "height": _HEIGHTS[0]}
            )
            pages[scheme] = context.new_page()
            pages[scheme].goto(address)
        yield pages


def taken(page: Page, picture: Picture, address: str) -> bytes:
    """Returns the picture as a JPEG that is small enough."""
    parts = urlsplit(address)
    page.goto(f"{parts.scheme}://{parts.netloc}{picture.path}")
    page.locator(picture.ready).first.wait_for(state="attached")
    for height in _HEIGHTS:
        for quality in _QUALITIES:
            data = page.screenshot(type="jpeg", quality=quality, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
            if len(data) < MAX_BYTES:
                return data
    raise ValueError(f"{picture.name} is larger than {MAX_BYTES:,} bytes at every quality")


@contextmanager
def staged(bootstrap: str) -> Iterator[None]:
    """Fills the broker: topics with records, groups of which one is behind, an open transaction in payments, and orders and
    payments that keep coming."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka import Producer as Sender
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = {"orders": 2, "payments": 1, "customers": 3, "shipments": 6, "invoices": 3}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, of, 1) for name, of in topics.items()]).values():
        made.result(30)
    producer = Sender({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for name, partitions in topics.items():
        for number in range(240 if name == "orders" else 30):
            _send(producer, name, number % partitions, 4500 + number)
    assert producer.flush(60) == 0
    for group, offset in (("billing", 70), ("shipping", 120), ("analytics", 100)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", number, offset) for number in (0, 1)], asynchronous=False)
        consumer.close()
    till = open_transaction(bootstrap, "till-7", "payments")
    over = threading.Event()

    def keep_coming() -> None:
        number = 0
        while not over.wait(0.2):
            number += 1
            _send(producer, "payments", 0, 9000 + number)
            _send(producer, "orders", number % 2, 9000 + number)
            producer.poll(0)

    thread = threading.Thread(target=keep_coming)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(60)
        del till


def _send(producer: Producer, topic: str, partition: int, number: int) -> None:
    what = {"id": number, "customer": f"c-{number % 37}", "total": number % 90 + 0.5, "currency": "EUR"}
    more = {"items": [{"sku": f"A{number % 11}", "count": number % 4 + 1}]} if topic == "orders" else {"paid": number % 3 == 0}
    value = json.dumps({topic.removesuffix("s"): what, **more})
    producer.produce(topic, value, f"c-{number % 37}", partition, headers=[("trace", f"{number:08x}")])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
