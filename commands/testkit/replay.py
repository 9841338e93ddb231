"""`ottla testkit replay FILE`: sends recorded requests again, byte for byte, and compares the answers with the recorded ones.

The file is what a broker under test answers to `GET /v1/requests?format=frames` (docs/testkit.md). Each recorded connection gets
a connection of its own, all of them to the same broker. On a connection, a request goes out when the one before it is answered;
so members of a group that wait for each other find each other.

Requests with credentials were recorded without them, so they are refused as those of a stranger would be.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from ottla.commands import output
from ottla.commands.clients import client, direct
from ottla.commands.log.dump.schemas import fields_of
from ottla.commands.output import Failure
from ottla.wire.api import APIS
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_response_header

COLUMNS: Final = ("Seq", "Connection", "API", "Version", "Answer", "Differs in")
SAME, DIFFERENT, NEW, NONE, SKIPPED = "same", "different", "new", "none", "not sent"
UNANSWERED: Final = "no answer wanted"
"""The outcome of recorded requests that get no answer, because they ask for none."""
MOST_PATHS: Final = 3
_SIZE_BYTES: Final = 4
_BY_NAME: Final = {api.name: api for api in APIS.values()}


class Recorded(NamedTuple):
    """A recorded request. The frames have no size in front; None is for one that was not recorded."""

    seq: int
    connection: int
    api: str
    version: int
    outcome: str
    request: bytes | None
    response: bytes | None


class Replayed(NamedTuple):
    """The outcome of a request."""

    recorded: Recorded
    result: str
    """`same` or `different` from what was recorded, `new` if nothing was, `none` if no answer came, `not sent`."""
    differs: list[str]
    """The paths of the first fields that differ, or why there is no answer."""
    answer: bytes | None = None


@client.command
def replay(
    cluster: client.Cluster,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded frames.", show_default=False)],
    as_json: output.Json = False,
) -> None:
    """Send recorded requests again, and compare the answers.

    The exit code is 1 if an answer is another than the recorded one.
    """
    recorded = read_recording(file)
    replayed = sorted(_send_all(cluster, recorded), key=lambda each: each.recorded.seq)
    if as_json:
        output.write_lines(json.dumps(_described(each)) for each in replayed)
    else:
        output.write_table(COLUMNS, [_row(each) for each in replayed])
    different = sum(each.result in {DIFFERENT, NONE} and each.recorded.response is not None for each in replayed)
    if different:
        raise Failure(f"{different} of {output.counted(len(replayed), 'answer')} are not the recorded ones")


def read_recording(file: Path) -> list[Recorded]:
    """Reads recorded frames. Raises Failure if the file holds something else, OSError if it cannot be read."""
    try:
        recorded = [_read(each) for each in json.loads(file.read_bytes())]
    except (ValueError, TypeError, KeyError) as error:
        raise Failure(f"{file}: this is not the answer to GET /v1/requests?format=frames: {error!r:.100}") from None
    if not recorded:
        raise Failure(f"{file}: there are no frames in it; record some requests first")
    return recorded


def _read(fields: dict[str, Any]) -> Recorded:
    frames = [None if fields[name] is None else b64decode(fields[name])[_SIZE_BYTES:] for name in ("request", "response")]
    return Recorded(
        int(fields["seq"]), int(fields["connection"]), str(fields["api"]), int(fields["version"]), str(fields["outcome"]), *frames
    )


def _send_all(cluster: client.Cluster, recorded: list[Recorded]) -> Iterator[Replayed]:
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
    if not port.isdecimal():
        raise typer.BadParameter(f"{cluster.bootstrap} is not host:port", param_hint="--bootstrap")
    with ExitStack() as stack:
        lines: dict[int, _Connection] = {}
        for each in recorded:
            if each.request is None:
                yield Replayed(each, SKIPPED, ["too long to be recorded"])
                continue
            line = lines.get(each.connection)
            if line is not None:
                yield from line.finish()
            if line is None or line.is_broken:
                connection = stack.enter_context(direct.connect(cluster, host.strip("[]"), int(port)))
                line = lines[each.connection] = _Connection(connection)
            yield from line.send(each)
        for line in lines.values():
            yield from line.finish()


class _Connection:
    """A connection, and the request on it that waits for its answer."""

    def __init__(self, connection: direct.Connection) -> None:
        self._connection = connection
        self._waiting: Recorded | None = None
        self.is_broken = False

    def send(self, recorded: Recorded) -> Iterator[Replayed]:
        """Sends a request; yields what came of it if no answer will come."""
        assert recorded.request is not None
        try:
            self._connection.send(recorded.request)
        except Failure as failure:
            self.is_broken = True
            yield Replayed(recorded, NONE, [str(failure)])
            return
        if recorded.outcome == UNANSWERED:
            yield Replayed(recorded, SAME, [])
        else:
            self._waiting = recorded

    def finish(self) -> Iterator[Replayed]:
        """Yields what came of the request that waits, if there is one."""
        recorded, self._waiting = self._waiting, None
        if recorded is None:
            return
        try:
            answer = self._connection.receive()
        except Failure as failure:
            self.is_broken = True  # a late answer would be taken for the next one
            yield Replayed(recorded, NONE, [str(failure)])
            return
        if recorded.response is None:
            yield Replayed(recorded, NEW, [], answer)
        elif answer == recorded.response:
            yield Replayed(recorded, SAME, [], answer)
        else:
            paths = list(_differences(_decoded(recorded, recorded.response), _decoded(recorded, answer), ""))
            more = [f"{len(paths) - MOST_PATHS} more"] if len(paths) > MOST_PATHS else []
            yield Replayed(recorded, DIFFERENT, [*paths[:MOST_PATHS], *more], answer)


def _decoded(recorded: Recorded, frame: bytes) -> Any:
    """Returns the fields of an answer, None if it does not decode."""
    try:
        api = _BY_NAME[recorded.api]
        messages = import_module(f"ottla.wire.messages.{api.module}")
        _, start = decode_response_header(api.key, recorded.version, frame, 0)
        return fields_of(messages.DECODE_RESPONSE[recorded.version](frame, start)[0])
    except (KeyError, *MALFORMED):
        return None


def _differences(one: Any, other: Any, path: str) -> Iterator[str]:
    """Yields the paths of the fields in which two decoded answers differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one:
            yield from _differences(one[name], other.get(name), f"{path}.{name}" if path else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{at}]")
    elif one != other:
        yield path


def _row(replayed: Replayed) -> list[output.Cell]:
    seq, connection, api, version, *_ = replayed.recorded
    return [seq, connection, api, version, replayed.result, ", ".join(replayed.differs)]


def _described(replayed: Replayed) -> dict[str, Any]:
    seq, connection, api, version, *_ = replayed.recorded
    answer = None if replayed.answer is None else _decoded(replayed.recorded, replayed.answer)
    known = {"seq": seq, "connection": connection, "api": api, "version": version}
    return known | {"answer": replayed.result, "differs_in": replayed.differs, "response": answer}
