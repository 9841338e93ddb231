"""Answers to the questions of a console about what there is: the broker itself, its groups, its transactions; and the note of a
session that has ended."""

from __future__ import annotations

from typing import Any, Final

from ottla import __version__
from ottla.server.inspect.groups import describe_group, get_group, summarize_groups
from ottla.server.inspect.subject import BadQuestion, NoSuch, Subject
from ottla.server.inspect.transactions import describe_transaction, describe_transactions

LONGEST_SESSION: Final = 64


def identify(subject: Subject) -> dict[str, Any]:
    """Returns which broker this is, and since when it is up; None while it starts or stops."""
    broker = subject.broker
    return {
        "version": __version__,
        "node": broker.config.node_id,
        "cluster": broker.cluster_id,
        "directories": list(broker.config.log_dirs),
        "started_ms": None if broker.context is None else broker.context.started_ms,
    }


def groups(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns the groups that this broker coordinates, in short, by id."""
    return summarize_groups(subject.context, limit)


def group(subject: Subject, name: str) -> dict[str, Any]:
    """Returns all about a group that this broker coordinates. Its lags count markers, for no log is read within the
    turn. Raises NoSuch."""
    found = get_group(subject.context, name)
    if found is None:
        raise NoSuch(f"This broker coordinates no group {name}.")
    return describe_group(subject.context, found, reads=False)


def transactions(subject: Subject, limit: int) -> dict[str, Any]:
    """Returns the transactional ids that this broker coordinates, with what is known of each, by id."""
    context = subject.context
    return describe_transactions(context, limit, lambda each: describe_transaction(context, each))


def end_session(subject: Subject, session: str, opened: float) -> None:
    """Notes the end of a session. It is answered wherever there is a console, for it shows nothing of the broker."""
    if not isinstance(session, str) or len(session) > LONGEST_SESSION or not isinstance(opened, float):
        raise BadQuestion("A session has a name and a time.")
    if subject.ended_sessions is not None:
        subject.ended_sessions.note(session, opened)
