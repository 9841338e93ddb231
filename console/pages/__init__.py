"""The pages, one a file: what is asked for in, a template and its values out. Here is which address leads to which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.console.ask import Answer, Ask
from ottla.console.pages import (
    acls,
    brokers,
    data_directory,
    data_file,
    data_log,
    denied,
    group,
    group_delete,
    group_forget,
    group_reset,
    group_why,
    groups,
    hanging,
    inside,
    kit,
    messages,
    overview,
    produce,
    producers,
    quorum,
    quotas,
    rates,
    reassignments,
    record,
    requests,
    setting,
    storage,
    tail,
    tokens,
    topic,
    topic_changes,
    topic_groups,
    topic_growth,
    topics,
    transactions,
    users,
)

PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/new-topic": topic_changes.new,
    "/topics/{topic}": topic.topic,
    "/topics/{topic}/settings": topic.settings,
    "/topics/{topic}/delete": topic_changes.ask_to_delete,
    "/topics/{topic}/messages": messages.messages,
    "/topics/{topic}/tail": tail.page,
    "/topics/{topic}/tail/events": tail.events,
    "/topics/{topic}/groups": topic_groups.groups,
    "/topics/{topic}/rates": rates.of_topic,
    "/topics/{topic}/produce": produce.form,
    "/topics/{topic}/{partition}/{offset}": record.record,
    "/topics/{topic}/{partition}/{offset}/{part}": record.download,
    "/groups": groups.groups,
    "/group": group.group,
    "/group/reset": group_reset.form,
    "/group/rates": rates.of_group,
    "/inside": inside.inside,
    "/requests": requests.requests,
    "/group/why": group_why.why,
    "/denied": denied.denied,
    "/brokers": brokers.brokers,
    "/brokers/{broker}": brokers.settings,
    # Transactions
    "/transactions": transactions.transactions,
    "/transaction": transactions.transaction,
    "/transaction/abort": transactions.ask_to_abort,
    "/transaction/hanging": hanging.hanging,
    "/transaction/hanging/abort": hanging.ask_to_abort,
    "/topics/{topic}/producers": producers.producers,
    # Access
    "/access": acls.acls,
    "/access/new": acls.new,
    "/access/remove": acls.ask_to_remove,
    "/access/users": users.users,
    "/access/users/new": users.new,
    "/access/users/remove": users.ask_to_remove,
    "/access/tokens": tokens.tokens,
    "/access/tokens/new": tokens.new,
    "/access/tokens/renew": tokens.ask_to_renew,
    "/access/tokens/expire": tokens.ask_to_expire,
    "/access/quotas": quotas.quotas,
    "/access/quotas/new": quotas.new,
    "/access/quotas/remove": quotas.ask_to_remove,
    # What a cluster is made of
    "/broker/directories": storage.directories,
    "/broker/directory": storage.directory,
    "/broker/reassignments": reassignments.reassignments,
    "/broker/reassignments/new": reassignments.form,
    "/broker/reassignments/cancel": reassignments.ask_to_cancel,
    "/broker/quorum": quorum.quorum,
    # Settings, and what else is changed
    "/setting": setting.setting,
    "/setting/set": setting.ask_to_set,
    "/setting/unset": setting.ask_to_unset,
    "/group/settings": setting.group_settings,
    "/group/delete": group_delete.ask_to_delete,
    "/group/forget": group_forget.ask_to_forget,
    "/topics/{topic}/partitions": topic_growth.ask_for_partitions,
    "/topics/{topic}/delete-records": topic_growth.ask_to_delete_records,
    "/files": data_directory.directory,
    "/files/{log}": data_log.log,
    "/files/{log}/{file}": data_file.of_log,
    "/file/{file}": data_file.of_directory,
}
"""The pages that GET shows."""

WITHOUT_CLUSTER: Final = frozenset(path for path in PAGES if path.startswith(("/files", "/file/")))
"""The pages that need a data directory, and no cluster."""

ACTIONS: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/new-topic": topic_changes.create,
    "/topics/{topic}/delete": topic_changes.delete,
    "/topics/{topic}/produce": produce.send,
    "/group/reset": group_reset.reset,
    "/group/delete": group_delete.delete,
    "/group/forget": group_forget.forget,
    "/transaction/abort": transactions.abort,
    "/transaction/hanging/abort": hanging.abort,
    "/access/new": acls.add,
    "/access/remove": acls.remove,
    "/access/users/new": users.add,
    "/access/users/remove": users.remove,
    "/access/tokens/new": tokens.create,
    "/access/tokens/renew": tokens.renew,
    "/access/tokens/expire": tokens.expire,
    "/access/quotas/new": quotas.add,
    "/access/quotas/remove": quotas.remove,
    "/broker/reassignments/new": reassignments.move,
    "/broker/reassignments/cancel": reassignments.cancel,
    "/setting/set": setting.set_,
    "/setting/unset": setting.unset,
    "/topics/{topic}/partitions": topic_growth.add_partitions,
    "/topics/{topic}/delete-records": topic_growth.delete_records,
    "/requests": requests.watch,
}
"""The actions of POST."""

TEST_PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/test": kit.kit,
    "/test/reset": kit.ask_to_reset,
    "/test/restore": kit.ask_to_restore,
    "/test/delete": kit.ask_to_delete,
}
"""The pages that GET shows of a broker under test, and only of that."""

TEST_ACTIONS: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/test": kit.act,
    "/test/reset": kit.reset,
    "/test/restore": kit.restore,
    "/test/delete": kit.delete,
}

FORMS: Final = (frozenset(ACTIONS) | frozenset(TEST_ACTIONS)) - {"/requests", "/test"}
"""Pages that are nothing but a form, so that a console that is read-only does not have them."""
