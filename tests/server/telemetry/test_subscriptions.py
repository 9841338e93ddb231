"""Clients' telemetry: which client gets which subscription, when it may ask and push again, and when it is forgotten."""

from __future__ import annotations

import asyncio
import sys
from random import Random
from typing import Any, TypeVar

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.base.network import OsNetwork
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.dispatch.routes import Dispatch
from ottla.server.metadata.image import CLIENT_METRICS
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.requests.session import Session
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS
from ottla.server.telemetry import subscriptions as telemetry
from ottla.server.telemetry.subscriptions import MAX_INSTANCES, ClientTelemetry, Subscription
from ottla.wire.compression import compress
from ottla.wire.errors import ErrorCode
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import MemoryBroker
from tests.otlp import gauge, metrics_data, point, text, total

T = TypeVar("T")
NONE = ErrorCode.NONE
EARLY = ErrorCode.THROTTLING_QUOTA_EXCEEDED
UNKNOWN = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
ID = bytes(range(16))
DEFAULT_ID_OF_ID = -725132322
"""The answer of Apache Kafka 4.4.0 for ID without subscriptions."""
INTERVAL_S = 300


class Rig:
    """One client on one connection."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({}, {"telemetry.max.bytes": "1000"})
        self.telemetry = self.make(1000)
        self.session = self.connect()
        self.client_id: str | None = "client"

    def make(self, max_bytes: int, *, keeps: bool = False) -> ClientTelemetry:
        workers = self.broker.context.workers  # which answers at once
        return ClientTelemetry(self.broker.image, self.broker.clock, Random(1), max_bytes, workers, keeps=keeps)

    def finished(self, steps: Steps[T]) -> T:
        """Returns what steps return that need not wait."""
        taken = take_steps(steps, self.broker.clock)
        assert not isinstance(taken, Promise)
        return taken

    def connect(self) -> Session:
        return self.broker.session()

    def subscribe(self, name: str, **settings: str | None) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.broker.image.apply_all([ConfigRecord(CLIENT_METRICS, name, *setting) for setting in dotted.items()])

    def get(self, instance_id: bytes = ID, session: Session | None = None) -> Subscription | ErrorCode:
        found = self.finished(self.telemetry.get(instance_id, self.client_id, session or self.session))
        if isinstance(found, ErrorCode):
            return found
        assert found[0] == instance_id
        return found[1]

    def push(
        self,
        subscription_id: int = DEFAULT_ID_OF_ID,
        metrics: bytes = b"abc",
        codec: int = 0,
        *,
        terminating: bool = False,
        instance_id: bytes = ID,
    ) -> ErrorCode:
        return self.finished(
            self.telemetry.push(
                instance_id,
                self.client_id,
                self.session,
                subscription_id=subscription_id,
                codec=codec,
                metrics=metrics,
                terminating=terminating,
            )
        )

    def pass_time(self, seconds: float = INTERVAL_S) -> None:
        self.broker.clock.advance(seconds)


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Subscriptions


def test_without_subscriptions_nothing_is_wanted(rig: Rig) -> None:
    assert rig.get() == Subscription((), 300_000, DEFAULT_ID_OF_ID)


def test_subscriptions_that_match_are_put_together(rig: Rig) -> None:
    rig.subscribe("one", metrics="b.c,a", interval_ms="60000")
    rig.subscribe("two", metrics="a,d", interval_ms="1000", match="client_id=cli.*,client_source_address=127\\..*")
    rig.subscribe("not ours", metrics="e", interval_ms="500", match="client_id=cli")
    found = rig.get()
    assert isinstance(found, Subscription)
    assert found[:2] == (("a", "b.c", "d"), 1000)
    rig.subscribe("three", metrics="*")
    again = rig.get()
    assert isinstance(again, Subscription)
    assert again.metrics == ("*",)
    assert len({found.id, again.id, DEFAULT_ID_OF_ID}) == 3


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
        ("client_id=client", True),
        ("client_id=clien", False),
        (" client_id = client ", True),
        ("client_software_name=lib,client_software_version=1\\.[0-9]", True),
        ("client_software_name=lib,client_software_version=2.*", False),
        ("client_source_port=4\\d+", True),
        ("client_id=nope,client_id=client", True),
        ("client_id=(?i)CLI.*", True),
        ("client_id=(?:client|other)", True),
        ("client_id=(c|l|i|e|n|t)+", True),
        ("", True),
    ],
)
def test_patterns(rig: Rig, match: str, fits: bool) -> None:
    rig.session.client_software = ("lib", "1.2")
    rig.session.client_port = 4321
    rig.subscribe("s", metrics="m", match=match)
    found = rig.get()
    assert isinstance(found, Subscription)
    assert found.metrics == (("m",) if fits else ())


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("(a+)+b", False),
        ("(a|a)*b", False),
        ("(?:a|aa){30}b", False),
        ("a*a*a*a*a*a*a*b", False),
        ("a?" * 40 + "a" * 40, True),
        ("(a|a)" * 40 + "b", False),
    ],
)
def test_a_pattern_of_many_ways_takes_no_time(rig: Rig, pattern: str, fits: bool) -> None:
    """One that tries them all would still be at it when the tests are given up."""
    rig.client_id = "a" * 40
    rig.subscribe("s", metrics="m", match=f"client_id={pattern}")
    found = rig.get()
    assert isinstance(found, Subscription)
    assert found.metrics == (("m",) if fits else ())


@pytest.mark.parametrize("pattern", ["(?!x)client", "(c)lient\\1?", "c*+lient", "(?:client){1001}", "\\p{Lower}{6}"])
def test_a_pattern_that_only_java_understands_fits_nobody(rig: Rig, pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    CLIENT_METRICS_SETTINGS["match"].parse(f"client_id={pattern}")
    rig.subscribe("s", metrics="m", match=f"client_id={pattern}")
    assert rig.get() == Subscription((), 300_000, DEFAULT_ID_OF_ID)
    assert f"the pattern {pattern!r} of a client-metrics subscription matches no client: " in caplog.text


@pytest.mark.parametrize("pattern", ["a{4294967296}", "(?:.{9}){999}", "a" * 8000], ids=["count", "program", "length"])
def test_a_pattern_beyond_what_can_be_compiled_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"whose pattern cannot be compiled|all are too long"):
        CLIENT_METRICS_SETTINGS["match"].parse(f"client_id={pattern}")


def test_a_client_without_an_id_matches_no_pattern_of_it(rig: Rig) -> None:
    rig.client_id = None
    rig.subscribe("s", metrics="m", match="client_id=.*")
    assert rig.get() == Subscription((), 300_000, DEFAULT_ID_OF_ID)


def test_settings_of_somebody_elses_making_are_passed_over(rig: Rig) -> None:
    rig.subscribe("s", metrics="m", interval_ms="1", of_the_future="x")
    found = rig.get()
    assert isinstance(found, Subscription)
    assert found[:2] == (("m",), 300_000)


# Keeping time


def test_a_get_before_the_interval_is_over(rig: Rig) -> None:
    rig.get()
    rig.pass_time(INTERVAL_S - 1)
    assert rig.get() is EARLY
    assert rig.get(session=rig.connect()) is EARLY, "on another connection as well"
    rig.pass_time(1)
    assert isinstance(rig.get(), Subscription)


def test_one_push_after_each_get_and_one_each_interval(rig: Rig) -> None:
    rig.get()
    assert [rig.push(), rig.push()] == [NONE, EARLY]
    rig.pass_time()
    assert [rig.push(), rig.push(), rig.get()] == [NONE, EARLY, EARLY]
    rig.pass_time()
    assert isinstance(rig.get(), Subscription)
    assert rig.push() is NONE


def test_a_push_needs_no_get(rig: Rig) -> None:
    assert rig.push() is NONE
    assert rig.get() is EARLY


def test_a_new_subscription_counts_at_once(rig: Rig) -> None:
    rig.get()
    rig.subscribe("s", metrics="m")
    assert rig.push() is UNKNOWN
    found = rig.get()
    assert isinstance(found, Subscription)
    assert found.metrics == ("m",)
    rig.subscribe("s", metrics=None)
    assert rig.get() == Subscription((), 300_000, DEFAULT_ID_OF_ID)


@pytest.mark.parametrize(
    ("refused", "forgiven"),
    [
        ({"subscription_id": 5}, True),
        ({"codec": 9}, True),
        ({"metrics": b"x" * 1001}, False),
        ({"codec": 1, "metrics": b"x"}, False),
    ],
)
def test_a_get_that_clears_the_reason_of_a_refused_push(rig: Rig, refused: dict[str, Any], forgiven: bool) -> None:
    rig.get()
    assert rig.push(**refused) is not NONE
    assert isinstance(rig.get(), Subscription) == forgiven
    assert rig.get() is EARLY, "once"


def test_the_last_push_may_come_early_and_is_the_last(rig: Rig) -> None:
    rig.get()
    assert [rig.push(), rig.push(terminating=True)] == [NONE, NONE]
    rig.pass_time()
    assert rig.push(terminating=True) is ErrorCode.INVALID_REQUEST
    assert rig.push() is ErrorCode.INVALID_REQUEST
    assert rig.push() is NONE, "whoever goes on all the same was refused once"
    rig.push(terminating=True)
    rig.subscribe("s", interval_ms="1000")
    assert rig.push() is UNKNOWN, "after a change of subscriptions everything begins anew"


# Pushes


@pytest.mark.parametrize(
    ("codec", "metrics", "code"),
    [
        (0, b"", NONE),
        (0, b"x" * 1000, NONE),
        (0, b"x" * 1001, ErrorCode.TELEMETRY_TOO_LARGE),
        (1, compress(1, b"x" * 1000), NONE),
        (1, compress(1, b"x" * 1001), ErrorCode.INVALID_RECORD),
        (1, b"", NONE),
        (2, b"garbage", ErrorCode.INVALID_RECORD),
        (3, b"garbage", ErrorCode.INVALID_RECORD),
        (4, b"garbage", ErrorCode.INVALID_RECORD),
        (5, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (-1, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
    ids=range(11),
)
def test_what_is_pushed(rig: Rig, codec: int, metrics: bytes, code: ErrorCode) -> None:
    assert rig.push(metrics=metrics, codec=codec) is code


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\1"])
def test_reserved_ids(rig: Rig, instance_id: bytes) -> None:
    assert rig.push(instance_id=instance_id) is ErrorCode.INVALID_REQUEST
    assert len(rig.telemetry) == 0


# Numbers that are kept


def pushed(rig: Rig, *metrics: bytes, instance_id: bytes = ID, codec: int = 0) -> ErrorCode:
    rig.pass_time()
    found = rig.get(instance_id)
    assert isinstance(found, Subscription)
    return rig.push(found.id, compress(codec, metrics_data(*metrics)), codec, instance_id=instance_id)


def kept(rig: Rig) -> dict[tuple[str, str], float]:
    return {(name, ",".join(map("=".join, attributes))): number for _, (name, attributes), number in rig.telemetry.numbers()}


@pytest.fixture
def keeping() -> Rig:
    made = Rig()
    made.telemetry = made.make(100_000, keeps=True)
    return made


def test_gauges_are_replaced_and_deltas_summed(keeping: Rig) -> None:
    labels = {"topic": text("t")}
    assert (
        pushed(keeping, gauge("g", point(1.5), point(2, labels)), total("d", point(3)), total("c", point(4), delta=False)) is NONE
    )
    assert pushed(keeping, gauge("g", point(7)), total("d", point(3)), total("c", point(9), delta=False), codec=4) is NONE
    assert kept(keeping) == {("g", ""): 7, ("g", "topic=t"): 2, ("d", ""): 6, ("c", ""): 9}
    keeping.subscribe("s", metrics="m")
    assert pushed(keeping, total("d", point(1))) is NONE, "a change of subscriptions takes nothing away"
    assert kept(keeping)["d", ""] == 7


def test_what_is_no_otlp_is_refused_where_it_is_kept(keeping: Rig, rig: Rig) -> None:
    assert pushed(keeping, total("d", point(1)) + b"\xff") is ErrorCode.INVALID_RECORD
    assert kept(keeping) == {}
    assert pushed(rig, total("d", point(1))) is NONE
    assert kept(rig) == {}, "nobody wants it"


def test_a_client_takes_its_numbers_along(keeping: Rig) -> None:
    pushed(keeping, gauge("g", point(1)))
    keeping.session.close()
    assert kept(keeping) == {}
    keeping.session = keeping.connect()
    pushed(keeping, gauge("h", point(1)))
    keeping.pass_time(3 * INTERVAL_S)
    keeping.get(b"another client..")
    assert kept(keeping) == {}


def test_numbers_have_their_bounds(keeping: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MAX_NUMBERS_OF_ONE", 3)
    monkeypatch.setattr(telemetry, "MAX_NUMBERS", 5)
    many = [gauge(name, point(1)) for name in "abcd"]
    second = b"another client.."
    assert pushed(keeping, *many) is NONE
    assert pushed(keeping, *many, instance_id=second) is NONE
    assert len(list(keeping.telemetry.numbers())) == 5
    keeping.pass_time()
    keeping.get(second)
    keeping.pass_time(2 * INTERVAL_S)
    keeping.get(second)
    assert len(list(keeping.telemetry.numbers())) == 2, "the first client was silent for long"
    assert pushed(keeping, gauge("x", point(1)), instance_id=second) is NONE
    assert len(list(keeping.telemetry.numbers())) == 3


# Being forgotten


def test_a_client_is_forgotten_with_the_connection_it_first_came_on(rig: Rig) -> None:
    other = rig.connect()
    rig.get()
    assert rig.get(session=other) is EARLY
    other.close()
    assert rig.get() is EARLY
    rig.session.close()
    assert len(rig.telemetry) == 0
    assert isinstance(rig.get(session=rig.connect()), Subscription)


def test_a_client_that_has_gone_already_is_answered_and_forgotten(keeping: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MAX_NUMBERS", 2)
    for _ in range(3):
        keeping.session.close()
        assert isinstance(keeping.get(), Subscription)
        assert keeping.push(metrics=metrics_data(gauge("a", point(1)), gauge("b", point(1)))) is NONE
        assert (len(keeping.telemetry), kept(keeping)) == (0, {})
    keeping.session = keeping.connect()
    assert pushed(keeping, gauge("a", point(1)), gauge("b", point(1))) is NONE
    assert len(kept(keeping)) == 2, "clients that are gone take up no room"


def test_a_client_is_forgotten_after_a_long_silence(rig: Rig) -> None:
    rig.push(terminating=True)
    rig.pass_time(3 * INTERVAL_S - 1)
    assert rig.push() is ErrorCode.INVALID_REQUEST
    rig.pass_time(3 * INTERVAL_S)
    assert rig.push() is NONE
    rig.pass_time(3 * INTERVAL_S)
    rig.push(instance_id=b"another client..")
    assert len(rig.telemetry) == 1


def test_there_is_room_for_so_many_and_no_more(rig: Rig) -> None:
    rig.get()
    for number in range(MAX_INSTANCES):
        rig.get((number + 1000).to_bytes(16, "big"))
    assert len(rig.telemetry) == MAX_INSTANCES
    assert isinstance(rig.get(), Subscription), "who asked first was forgotten"


def test_the_broker_has_one(rig: Rig) -> None:
    context = rig.broker.context
    assert context.existing_client_telemetry is None
    assert context.client_telemetry() is context.client_telemetry()
    assert context.client_telemetry().max_bytes == 1000


async def sent(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, request: Any, version: int) -> Any:
    """One request over a connection and its answer."""
    module: Any = sys.modules[type(request).__module__]
    parts: list[Any] = [encode_request_header(module.API_KEY, version, 1, "client")]
    module.ENCODE_REQUEST[version](request, parts)
    body = b"".join(parts)
    writer.write(len(body).to_bytes(4, "big") + body)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    _, at = decode_response_header(module.API_KEY, version, answer, 0)
    return module.DECODE_RESPONSE[version](answer, at)[0]


def test_a_connection_identifies_its_client_and_takes_it_along(rig: Rig) -> None:
    rig.subscribe("s", metrics="m", match="client_software_name=lib,client_software_version=1\\.2,client_source_port=[1-9]\\d+")

    async def scenario() -> None:
        context = rig.broker.context
        network = NetworkContext(context.clock, context.purgatory, OsNetwork())
        listener = Listener("PLAINTEXT", network, Dispatch(context), SocketSettings())
        await listener.open("127.0.0.1", 0)
        await listener.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await sent(writer, reader, ApiVersionsRequest("lib", "1.2"), 3)
        answer = await sent(writer, reader, GetTelemetrySubscriptionsRequest(ID), 0)
        assert (answer.error_code, answer.requested_metrics) == (0, ["m"])
        assert len(context.client_telemetry()) == 1
        writer.close()
        await listener.close(10.0)
        assert len(context.client_telemetry()) == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))
