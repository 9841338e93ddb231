"""Turns rows into Prometheus' text format, with prometheus_client.

`BrokerCollector` is a collector as that library defines it, and can be registered in any registry. `Exposition.pieces` gives the
same text in pieces of at most PIECE samples, or of as many as PIECE_SECONDS were enough for: one sample may be the sum of a
group's lags in a thousand partitions. Between two pieces the broker serves its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample
from prometheus_client.registry import Collector, CollectorRegistry

from ottla.server.metrics.latency import QUANTILES, Times, Window, quantile_ns
from ottla.server.metrics.table import METRICS, Metric

if TYPE_CHECKING:
    from ottla.server.metrics.sources import Sources

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PIECE: Final = 250
PIECE_SECONDS: Final = 0.001
_PIECE_NS: Final = int(PIECE_SECONDS * 1e9)
BOUNDS: Final = range(14, 36)
"""The buckets of the histogram that are shown: up to 2**14 ns (16 us), then doubling, up to 2**35 ns (34 s)."""
_NS_PER_MS: Final = 1_000_000
_NS_PER_SECOND: Final = 1_000_000_000


class BrokerCollector(Collector):
    """Collects all metrics of a broker. Reading them changes nothing but the beginning of the window of the quantiles."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._windows: dict[str, Window] = {}

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            family = _family(metric)
            family.samples.extend(self._samples(metric))
            yield family

    def pieces(self) -> Iterator[Family]:
        """Yields what `collect` yields, but large families in pieces, each a family of the same name, and no empty families."""
        ticks_ns = self._sources.context.clock.ticks_ns
        for metric in METRICS:
            samples = self._samples(metric)
            while piece := _piece(samples, ticks_ns):
                family = _family(metric)
                family.samples.extend(piece)
                yield family

    def _samples(self, metric: Metric) -> Iterator[Sample]:
        rows: Iterable[Any] = metric.rows(self._sources)
        if metric.kind == "summary":
            yield from self._summary(metric, rows)
            return
        for values, number in rows:
            labels = dict(zip(metric.labels, values, strict=True))
            if metric.kind == "histogram":
                yield from _histogram(metric.name, labels, number)
            else:
                yield Sample(metric.name, labels, float(number))

    def _summary(self, metric: Metric, rows: Iterable[tuple[tuple[str, ...], Times]]) -> Iterator[Sample]:
        found = list(rows)
        window = self._windows.setdefault(metric.name, Window())
        window.move(self._sources.context.clock.monotonic(), {values: times.took for values, times in found})
        for values, times in found:
            labels = dict(zip(metric.labels, values, strict=True))
            took = window.recent(values, times.took)
            for quantile in QUANTILES if took else ():
                yield Sample(metric.name, labels | {"quantile": quantile}, quantile_ns(took, float(quantile)) / _NS_PER_MS)
            yield Sample(f"{metric.name}_count", labels, float(times.total))
            yield Sample(f"{metric.name}_sum", labels, times.sum_ns / _NS_PER_MS)


def _piece(samples: Iterator[Sample], ticks_ns: Callable[[], int]) -> list[Sample]:
    """Takes as many of the next samples as fit into one piece; returns an empty list when there are no more."""
    piece: list[Sample] = []
    until = ticks_ns() + _PIECE_NS
    for sample in samples:
        piece.append(sample)
        if len(piece) == PIECE or ticks_ns() >= until:
            break
    return piece


def _family(metric: Metric) -> Family:
    """Returns an empty family as the library defines it, which names counters without their `_total`."""
    name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    return Family(name, metric.doc, metric.kind)


def _histogram(name: str, labels: dict[str, str], times: Times) -> Iterator[Sample]:
    for power in BOUNDS:
        bound = repr((1 << power) / _NS_PER_SECOND)
        yield Sample(f"{name}_bucket", labels | {"le": bound}, float(sum(times.took[: power + 1])))
    yield Sample(f"{name}_bucket", labels | {"le": "+Inf"}, float(times.total))
    yield Sample(f"{name}_count", labels, float(times.total))
    yield Sample(f"{name}_sum", labels, times.sum_ns / _NS_PER_SECOND)


class _SingleFamily:
    """Acts as a registry of one family, as far as generate_latest needs one."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        return (self._family,)


def text_of(family: Family, *, head: bool) -> bytes:
    """Returns the family as text, with or without the two lines that introduce it."""
    text: bytes = generate_latest(_SingleFamily(family))
    return text if head else text.split(b"\n", 2)[2]


class Exposition:
    """Makes the text of `/metrics`: the broker's metrics, and those of its process, which Python clients always have."""

    def __init__(self, sources: Sources) -> None:
        self._broker = BrokerCollector(sources)
        registry = CollectorRegistry()  # our own, because the library's global one belongs to the program that runs this broker
        self._process: list[Collector] = [ProcessCollector(registry=registry), GCCollector(registry=registry)]

    def pieces(self) -> Iterator[bytes]:
        last = ""
        for family in self._broker.pieces():
            yield text_of(family, head=family.name != last)
            last = family.name
        for collector in self._process:
            for family in collector.collect():
                yield text_of(family, head=True)
