"""Patterns of subscriptions are bounded and matched in steps, pushes are read in a thread, and much may happen meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.base.expressions import Expression, compile_expression
from ottla.server.base.promise import Promise
from ottla.server.base.turns import at_once, take_steps
from ottla.server.metadata.image import CLIENT_METRICS
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS
from ottla.server.telemetry import subscriptions as telemetry
from ottla.server.telemetry.subscriptions import Subscription
from ottla.wire.compression import NAMES, compress
from ottla.wire.errors import ErrorCode
from tests.otlp import gauge, metrics_data, point, total
from tests.server.telemetry.test_subscriptions import DEFAULT_ID_OF_ID, EARLY, ID, NONE, Rig, kept, pushed

INVALID = ErrorCode.INVALID_RECORD


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def keeping() -> Rig:
    made = Rig()
    made.telemetry = made.make(100_000, keeps=True)
    return made


def test_all_patterns_of_a_subscription_weigh_as_much_as_one_may() -> None:
    for many in ([f"client_id={number}" for number in range(100)], [f"client_id=\\pL{number}" for number in range(30)]):
        with pytest.raises(ConfigError, match="all are too long: they may have 8,000 bytes"):
            CLIENT_METRICS_SETTINGS["match"].parse(",".join(many))
    CLIENT_METRICS_SETTINGS["match"].parse(",".join(f"client_id={number}" for number in range(60)))


@pytest.mark.parametrize("pattern", ["a" * 9000, "()" * 10_000 + ".*", "(?:.{9}){999}"], ids=["long", "groups", "program"])
def test_an_older_pattern_that_is_beyond_the_bounds_fits_nobody(rig: Rig, pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    """It has been in the metadata since before there were bounds. To capture ten thousand groups took three gigabytes."""
    rig.client_id = "a" * 9000
    rig.subscribe("s", metrics="m", match=f"client_id={pattern}")
    for number in range(3):
        found = rig.get(bytes([number]) * 16 if number else ID)
        assert isinstance(found, Subscription)
        assert found.metrics == ()
    assert caplog.text.count("matches no client: ") == 1


def test_subscriptions_are_read_once_and_compiled_patterns_have_a_total(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    compiled: list[str] = []
    parse = telemetry._parsed

    def reading(texts: Mapping[str, str]) -> Any:
        read.append(texts)
        return parse(texts)

    def compiling(text: str) -> Expression:
        compiled.append(text)
        return compile_expression(text)

    monkeypatch.setattr(telemetry, "_parsed", reading)
    monkeypatch.setattr(telemetry, "compile_expression", compiling)
    monkeypatch.setattr(telemetry, "MAX_COMPILED_BYTES", 2.5 * compile_expression("c.*0").memory)
    for number in range(4):
        rig.subscribe(f"s{number}", metrics="m", match=f"client_id=c.*{number}")
    for number in range(1, 4):
        rig.get(bytes([number]) * 16)
    assert len(read) == 4
    assert compiled == ["c.*0", "c.*1", "c.*2", "c.*3", "c.*2", "c.*3", "c.*2", "c.*3"]
    rig.subscribe("s1", interval_ms="1000")
    rig.get()
    assert len(read) == 5, "one has changed"
    assert compiled[-4:] == ["c.*0", "c.*1", "c.*2", "c.*3"]
    rig.broker.image.configs.pop((CLIENT_METRICS, "s1"))


def test_subscriptions_are_matched_one_a_step(rig: Rig) -> None:
    for number in range(10):
        rig.subscribe(f"s{number}", metrics=f"m{number}", match="client_id=c.*")
    steps = rig.telemetry.get(ID, "client", rig.session)
    assert sum(1 for _ in steps) >= 10


def test_what_happens_while_a_client_is_matched(rig: Rig) -> None:
    rig.subscribe("s1", metrics="a")
    rig.subscribe("s2", metrics="b")
    steps, beside = (rig.telemetry.get(ID, "client", rig.session) for _ in range(2))
    next(steps)
    next(beside)
    rig.subscribe("s3", metrics="c")
    rig.broker.image.configs.pop((CLIENT_METRICS, "s2"))
    found = at_once(beside)
    assert isinstance(found, tuple)
    assert found[1].metrics == ("a",), "what was there at the first step, and still is"
    assert at_once(steps) is EARLY, "the client is known meanwhile"
    again = rig.get()
    assert isinstance(again, Subscription)
    assert again.metrics == ("a", "c")


def test_a_connection_that_is_closed_while_its_client_is_matched(rig: Rig) -> None:
    rig.subscribe("s1", metrics="a")
    steps = rig.telemetry.get(ID, "client", rig.session)
    next(steps)
    rig.session.close()
    assert isinstance(at_once(steps), tuple)
    assert len(rig.telemetry) == 0


def test_a_long_text_is_matched_in_a_thread(rig: Rig) -> None:
    threads = rig.broker.hold_threads()
    rig.subscribe("s", metrics="m", match="client_id=(?:a?b?)+" + "a?b?" * 1000)
    taken = take_steps(rig.telemetry.get(ID, "ab" * 10_000, rig.session), rig.broker.clock)
    assert isinstance(taken, Promise)
    threads.end_first()
    rig.pass_time(0)
    found = taken.result()
    assert isinstance(found, tuple)
    assert found[1].metrics == ("m",)


def test_a_push_is_read_in_a_thread_while_its_client_may_go(keeping: Rig) -> None:
    keeping.get()
    threads = keeping.broker.hold_threads()
    keeping.pass_time()

    def push() -> Promise[ErrorCode]:
        metrics = metrics_data(total("d", point(1)), total("d", point(2)), gauge("g", point(1)), gauge("g", point(5)))
        keeping.pass_time()
        steps = keeping.telemetry.push(
            ID,
            "client",
            keeping.session,
            subscription_id=DEFAULT_ID_OF_ID,
            codec=0,
            metrics=metrics,
            terminating=False,
        )
        taken = take_steps(steps, keeping.broker.clock)
        assert isinstance(taken, Promise)
        return taken

    for _ in range(2):
        first = push()
        assert keeping.push() is EARLY, "it counts from the moment on when it came"
        threads.end_first()
        keeping.pass_time(0)
        assert first.result() is NONE
    assert kept(keeping) == {("d", ""): 6, ("g", ""): 5}
    second = push()
    keeping.session.close()
    threads.end_first()
    keeping.pass_time(0)
    assert second.result() is NONE
    assert kept(keeping) == {}
    keeping.session = keeping.connect()
    keeping.get(b"x" * 16)
    assert kept(keeping) == {}


def test_of_one_push_so_many_numbers_leave_the_thread(keeping: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop keeps a bounded number of them, and those that are known already are among these."""
    monkeypatch.setattr(telemetry, "MAX_NUMBERS_OF_ONE", 3)
    pushed(keeping, gauge("z", point(1)))
    read = keeping.telemetry._read(0, metrics_data(*(gauge(name, point(7)) for name in "abcdefgz")), frozenset([("z", ())]))
    assert [point.name for point in read] == ["a", "b", "c", "d", "z"]
    pushed(keeping, *(gauge(name, point(7)) for name in "abcdefgz"))
    assert kept(keeping) == {("z", ""): 7, ("a", ""): 7, ("b", ""): 7}


@pytest.mark.parametrize(
    ("codec", "metrics", "error"),
    [
        (codec, data, error)
        for codec in NAMES
        if codec
        for data, error in ((compress(codec, b"x" * 1000), NONE), (compress(codec, b"x" * 1001), INVALID), (b"abc", INVALID))
    ],
    ids=[f"{codec} {what}" for codec in NAMES if codec for what in ("right", "too large", "broken")],
)
def test_a_push_that_is_not_kept_takes_no_thread(rig: Rig, codec: int, metrics: bytes, error: ErrorCode) -> None:
    """It is unfolded all the same, for one that cannot be is refused."""
    threads = rig.broker.hold_threads()
    assert rig.push(metrics=metrics, codec=codec) is error
    assert threads.jobs == []


def wanted(found: Subscription | ErrorCode) -> tuple[str, ...]:
    assert isinstance(found, Subscription)
    return found.metrics


def test_a_client_is_not_looked_for_in_the_settings_of_everything_else(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    class Watched(dict[Any, Any]):
        def __iter__(self) -> Any:
            looks.append("at all")
            return super().__iter__()

    image = rig.broker.image
    monkeypatch.setattr(image, "configs", Watched(image.configs))
    assert rig.get() == Subscription((), 300_000, DEFAULT_ID_OF_ID)
    rig.subscribe("s", metrics="m")
    assert wanted(rig.get(bytes([1]) * 16)) == ("m",)
    rig.subscribe("s", metrics=None)
    assert wanted(rig.get(bytes([2]) * 16)) == ()
    assert looks == []


def test_subscriptions_that_were_there_before_are_known(rig: Rig) -> None:
    rig.subscribe("s", metrics="m")
    rig.telemetry = rig.make(1000)
    assert wanted(rig.get()) == ("m",)
