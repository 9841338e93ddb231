"""Transactions and producers: what the coordinator knows of each transactional id, and what partitions
remember of who wrote to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.server.inspect.names import ascending, bounded
from ottla.server.txn.errors import TransactionError

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext
    from ottla.server.txn.state import Transaction


def all_transactions(context: BrokerContext) -> dict[str, Transaction]:
    """Returns the transaction of each transactional id, of none while some are being loaded."""
    coordinator = context.existing_transaction_coordinator
    if coordinator is None:
        return {}
    try:
        return {each.transactional_id: each for each in coordinator.all_transactions()}
    except TransactionError:
        return {}


def describe_transactions(context: BrokerContext, limit: int, describe: Callable[[Transaction], Any]) -> dict[str, Any]:
    """Returns what is known of transactional ids, by id, each as `describe` has it."""
    found = list(all_transactions(context).values())
    return bounded("transactions", found, limit, describe, key=lambda each: each.transactional_id)


def describe_transaction(context: BrokerContext, transaction: Transaction) -> dict[str, Any]:
    """Returns all about a transactional id. `times_out_in_ms` is null if no transaction is open."""
    open_ms = context.clock.now_ms() - transaction.started_ms
    is_open = not transaction.is_idle and not transaction.is_ending
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state.text,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "started_ms": transaction.started_ms if is_open else None,
        "times_out_in_ms": transaction.timeout_ms - open_ms if is_open else None,
        "partitions": list(ascending(transaction.partitions)),
    }


def producers(context: BrokerContext, topic: str | None) -> Iterator[dict[str, Any]]:
    """Yields the idempotent and transactional producers that each partition remembers, of one topic or of all."""
    for replica in sorted(context.replicas, key=lambda each: (each.topic, each.partition)):
        if topic is not None and replica.topic != topic:
            continue
        for state in replica.log.producers:
            yield {
                "topic": replica.topic,
                "partition": replica.partition,
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp_ms": state.last_timestamp_ms,
                "transaction_start_offset": state.txn_first_offset if state.has_open_transaction else None,
            }
