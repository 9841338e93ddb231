"""Answers to the questions of a console about how the broker is: who is connected, what it answers, whether it is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.server.inspect.connections import connections, describe_connection
from ottla.server.inspect.names import bounded
from ottla.server.inspect.subject import Subject
from ottla.server.partitions.roles import Leader
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from ottla.server.dispatch.measured import RequestCounts
    from ottla.server.metrics.sources import Sources
    from ottla.server.partitions.traffic import Traffic
    from ottla.server.requests.context import BrokerContext


def connected(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns the connections, those whose clients wait for an answer first."""
    clock = subject.context.clock
    return bounded(
        "connections",
        list(connections(subject.broker)),
        limit,
        lambda each: {**describe_connection(each, clock, None), "waits": each.waiting},
        key=lambda each: not each.waiting,
    )


def health(subject: Subject) -> dict[str, Any]:
    """Returns why the broker does not serve clients as it should, one sentence for each reason, and its figures."""
    from ottla.server.metrics.health import reasons_not_ready  # not loaded by a broker without metrics

    broker, context = subject.broker, subject.context
    return {
        "reasons": reasons_not_ready(_sources(broker, context)),
        "connections": sum(len(listener.connections) for listener in broker.all_listeners),
        "refused": sum(listener.refused for listener in broker.all_listeners),
        "partitions": sum(1 for _ in context.replicas),
        "is_measured": broker.sources is not None,
    }


def traffic(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns what went into the partitions of this broker and out of them since it started: in all, with what has been deleted,
    and by topic, those with the most bytes first."""
    replicas = subject.context.replicas
    by_topic = bounded(
        "topics",
        list(replicas.traffic.items()),
        limit,
        lambda each: {"topic": each[0], **_amounts(each[1])},
        key=lambda each: -each[1].bytes_in - each[1].bytes_out,
    )
    return {**_amounts(replicas.past_traffic, *replicas.traffic.values()), **by_topic}


def _amounts(*counted: Traffic) -> dict[str, int]:
    return {
        "records_in": sum(each.messages_in for each in counted),
        "bytes_in": sum(each.bytes_in for each in counted),
        "bytes_out": sum(each.bytes_out for each in counted),
    }


def _sources(broker: Broker, context: BrokerContext) -> Sources:
    """Returns what the metrics are read from, or would be if they were on."""
    if broker.sources is not None:
        return broker.sources
    from ottla.server.dispatch.measured import RequestMetrics
    from ottla.server.metrics.sources import Sources

    measured = RequestMetrics(context.clock.ticks_ns)
    return Sources(context, measured, broker.listeners, context.replicas.logs, serving=True)


def requests(subject: Subject) -> dict[str, Any]:
    """Returns how often each API was asked since the start, how long answers took, and the errors in them; None if the metrics,
    which count this, are off."""
    sources = subject.broker.sources
    if sources is None:
        return {"apis": None}
    from ottla.server.metrics.latency import quantile_ns, sum_times

    by_api: dict[int, list[RequestCounts]] = {}
    for number, counts in sources.requests.counts.items():
        by_api.setdefault(number >> 16, []).append(counts)
    apis: list[dict[str, Any]] = []
    errors: dict[tuple[str, str], int] = {}
    for key, routes in by_api.items():
        times = sum_times(routes)
        apis.append(
            {
                "api": APIS[key].name,
                "requests": sum(each.requests for each in routes),
                "p50_us": round(quantile_ns(times.took, 0.5) / 1000),
                "p99_us": round(quantile_ns(times.took, 0.99) / 1000),
            }
        )
        for route in routes:
            for code, times_of in route.errors.items():
                name = ErrorCode(code).name
                errors[APIS[key].name, name] = errors.get((APIS[key].name, name), 0) + times_of
    listed = [{"api": api, "error": name, "times": times_of} for (api, name), times_of in errors.items()]
    return {
        "apis": sorted(apis, key=lambda each: (-each["requests"], each["api"])),
        "errors": sorted(listed, key=lambda each: (-each["times"], each["api"], each["error"])),
    }


def open_transactions(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns the transactions that are open in partitions of this broker, the oldest first: since which offset, and when their
    producers wrote last."""
    found = list(_open(subject.context))
    return bounded("transactions", found, limit, lambda each: each, key=lambda each: each["last_timestamp_ms"])


def _open(context: BrokerContext) -> Iterator[dict[str, Any]]:
    for replica in context.replicas:
        log = replica.log
        if log.last_stable_offset == log.high_watermark:
            continue  # nothing is open, as almost everywhere
        for state in log.producers:
            if state.has_open_transaction:
                yield {
                    "topic": replica.topic,
                    "partition": replica.partition,
                    "producer_id": state.producer_id,
                    "producer_epoch": state.producer_epoch,
                    "first_offset": state.txn_first_offset,
                    "last_timestamp_ms": state.last_timestamp_ms,
                    "behind": log.high_watermark - state.txn_first_offset,
                }


def followers(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns how far behind the followers of partitions are that this broker leads, those that are furthest behind first."""
    found = list(_followers(subject.context))
    return bounded("followers", found, limit, lambda each: each, key=lambda each: (each["in_sync"], -each["behind"]))


def _followers(context: BrokerContext) -> Iterator[dict[str, Any]]:
    for replica in context.replicas:
        led = replica.role.high_watermark if isinstance(replica.role, Leader) else None
        for follower, state in () if led is None else led.followers.items():
            yield {
                "topic": replica.topic,
                "partition": replica.partition,
                "follower": follower,
                "behind": replica.log.log_end_offset - max(0, state.end_offset),
                "in_sync": led is not None and follower in led.in_sync,
            }
