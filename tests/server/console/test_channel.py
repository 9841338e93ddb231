"""The broker's end of the channel, on which the process at the other end may ask what it likes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.console.channel import MAX_QUESTION_BYTES, MAX_UNREAD_BYTES, Channel
from ottla.server.inspect import questions
from ottla.server.inspect.subject import Subject

NO_SUBJECT: Any = SimpleNamespace(more={}, hearers=set())
LONG = 1 << 20


class Transport:
    """A transport whose other end reads nothing."""

    def __init__(self) -> None:
        self.unread = 0
        self.written: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.unread += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.is_aborted = True


def connected() -> tuple[Channel, Any]:
    channel, transport = Channel(NO_SUBJECT), Transport()
    given: Any = transport
    channel.connection_made(given)
    return channel, transport


def test_many_questions_at_once_are_answered_no_further_than_what_may_be_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "answer_line", lambda subject, line: line * LONG)
    channel, transport = connected()
    channel.data_received(b"?\n" * 1000)
    assert transport.is_aborted
    assert transport.unread <= MAX_UNREAD_BYTES + LONG


def test_what_is_read_may_go_on() -> None:
    channel, transport = connected()
    channel.data_received(b'{"id": 1, "question": "wow", ')
    assert transport.unread == 0
    channel.data_received(b'"arguments": {}}\n')
    assert transport.unread > 0
    assert not transport.is_aborted


@pytest.mark.parametrize("said", [b"nonsense\n", b"x" * (MAX_QUESTION_BYTES + 1)])
def test_what_is_no_question_or_too_long_ends_the_channel(said: bytes) -> None:
    channel, transport = connected()
    channel.data_received(said)
    assert transport.is_aborted


def test_news_are_lines_as_long_as_it_listens_and_reads() -> None:
    subject = Subject(lambda: NO_SUBJECT, NO_SUBJECT)
    channel, transport = Channel(subject), Transport()
    given: Any = transport
    channel.connection_made(given)
    subject.tell("kit_over", 7)
    assert transport.written == [b'{"news": "kit_over", "number": 7}\n']
    transport.unread = MAX_UNREAD_BYTES + 1
    subject.tell("kit_over", 8)
    transport.unread = 0
    channel.connection_lost(None)
    assert subject.hearers == set()
    subject.tell("kit_over", 9)
    assert len(transport.written) == 1
