"""Transactions, one after the other: list-append, as Jepsen calls it. Each reads on, appends to some keys and commits how far it
has read, or is aborted. Two workers may have the same transactional id: then each fences the other, again and again.
"""

from __future__ import annotations

from typing import Any, Final

from compat_tests.anomalies.history import READ_COMMITTED, Key, Recorded
from compat_tests.outside.clients import Abortable, ClientError, GivenUp, Library, Poller, Sender
from compat_tests.outside.workers import Place, Worker, by_key, sent

_COMMITTED: Final = 0.7
_WITH_OFFSETS: Final = 0.5


class Transactions(Worker):
    """`transactional_id` is the worker's own unless another has the same."""

    def __init__(self, place: Place, library: Library, transactional_id: str) -> None:
        super().__init__(place, f"{library.name} transacts as {transactional_id}")
        self._library = library
        self._id = self.contested = transactional_id
        self._keys = [key for key in place.keys if key not in place.queues]
        self._sender: Sender | None = None
        self._poller: Poller | None = None
        self._positions: dict[Key, int] = dict.fromkeys(self._keys, 0)
        self._assigned = False
        self._asked = False
        """True if the broker may have been asked to commit the transaction that is under way."""

    def once(self) -> None:
        if self._sender is None:
            self._begin_anew()
            return
        mops: list[Any] = []
        if self.random.random() < _WITH_OFFSETS:
            mops = self._poll()
        offsets = {key: position for key, position in self._positions.items() if position} if mops else {}
        fields: dict[str, Any] = {"transactional_id": self._id, "isolation": READ_COMMITTED}
        if offsets:
            fields |= {"group": f"group of {self._id}", "offsets": offsets}
        writes = [
            (key, self.recorder.value())
            for key in self.random.sample(self._keys, self.random.randint(1, len(self._keys)))
            for _ in range(self.random.randint(1, 3))
        ]
        invoked = [*mops, *(sent(key, None, value) for key, value in writes)]
        operation = self.recorder.invoke(self.process, "txn", mops=invoked, **fields)
        commit = self.random.random() < _COMMITTED
        try:
            known = self._write(operation, writes, fields, commit=commit)
        except Abortable:
            self._abort(operation)
            return
        except ClientError as error:
            # Nobody asks to commit any more. If nobody has, the next who takes over the id aborts it.
            operation.info(why=str(error)) if self._asked else operation.fail(why=f"a write failed: {error}")
            raise
        if commit:
            operation.ok(mops=[*mops, *(sent(key, known.get(value), value) for key, value in writes)])
            self.done += 1
        else:
            self._abort(operation)

    def _write(
        self, operation: Recorded, writes: list[tuple[Key, int]], fields: dict[str, Any], *, commit: bool
    ) -> dict[int, int]:
        """Returns value -> offset of what was written, after the commit if one is wanted. Raises ClientError."""
        assert self._sender is not None
        self._asked = False
        known: dict[int, int] = {}
        self._sender.begin()
        for key, value in writes:

            def written(offset: int | None, value: int = value) -> None:
                if offset is not None:
                    known[value] = offset

            self._sender.send(key, value, written)
            self._sender.turn(self.random.uniform(0, 0.02))
        if fields.get("offsets"):
            self._sender.send_offsets(fields["group"], fields["offsets"])
        if commit:
            self._asked = True
            operation.ending()
            self._sender.commit()
        return known

    def _abort(self, operation: Recorded) -> None:
        assert self._sender is not None
        try:
            self._sender.abort()
        except ClientError:
            operation.info() if self._asked else operation.fail(why="not even aborted")
            raise
        operation.fail(why="aborted")

    def _poll(self) -> list[Any]:
        """Reads on, and returns the mops of it."""
        if self._poller is None:
            self._poller = self._library.poller(self.place.bootstrap, f"reads for {self._id} {self.process}", committed=True)
        if not self._assigned:
            self._poller.assign(self._positions)
            self.recorder.mark(self.process, "assign", positions=dict(self._positions))
            self._assigned = True
        records = self._poller.poll(0.1)
        for key, offset, _ in records:
            self._positions[key] = offset + 1
        return [["poll", by_key(records)]] if records else []

    def _begin_anew(self) -> None:
        sender = self._library.sender(self.place.bootstrap, self._id)
        operation = self.recorder.invoke(self.process, "init", transactional_id=self._id)
        try:
            sender.init()
        except ClientError as error:
            self.given_up += isinstance(error, GivenUp)
            operation.info()
            sender.close()
            return
        operation.ok()
        self._sender = sender

    def leave(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        if self._poller is not None:
            self._poller.close()
            self._poller = None
        self._assigned = False
