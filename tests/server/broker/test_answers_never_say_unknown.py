"""No answer has the code UNKNOWN_SERVER_ERROR (-1): a client can neither tell from it what is wrong nor whether to try again.

Every API of both kinds of listeners is asked everything odd that tests/odd_requests.py knows, by a broker in memory: before there
are internal topics, when there is all that a request may name and an authorizer, and when nothing fits into the internal topics
any more. An exception in a handler, which closes the connection, fails the test as well.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

import ottla.server
from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.wire.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_state, offset_commit
from tests.odd_requests import requests
from tests.server.broker.asked import AUTHORIZED, TOPIC, Asked, codes

APIS_SERVED: Final = sorted({api.key: api for role in (BROKER, CONTROLLER) for api in served(role).values()}.values())


NEW, FULL, NO_ROOM = "new", "full", "no room"


async def sweep(asked: Asked, api: Api, state: str) -> list[str]:
    """Sends all odd requests of an API. Returns a line for each that goes wrong."""
    wrong = []
    for what, version, body in list(requests(api, TOPIC, asked.topic_id)):
        try:
            answer = await asked.send(api, version, body)
        except Exception as error:  # noqa: BLE001 - every mistake of a handler is a finding
            wrong.append(f"{state}: {api.name} v{version} {what}: {error!r}")
            continue
        if answer is not None and ErrorCode.UNKNOWN_SERVER_ERROR in codes(answer):
            wrong.append(f"{state}: {api.name} v{version} {what}: -1")
    return wrong


@pytest.mark.parametrize("api", APIS_SERVED, ids=lambda api: api.module)
def test_nothing_odd_is_answered_with_it(api: Api) -> None:
    async def scenario() -> None:
        wrong = []
        for state in (NEW, FULL, NO_ROOM):
            settings = AUTHORIZED if state == FULL else {}
            asked = Asked(None, **settings)
            await asked.start()
            if state != NEW:
                await asked.make_everything()
            if state == NO_ROOM:
                await asked.leave_no_room()
            wrong += await sweep(asked, api, state)
            await asked.broker.stop()
        assert not wrong, "\n".join(wrong[:50])

    asyncio.run(scenario())


def test_offsets_that_do_not_fit_into_a_batch() -> None:
    async def scenario() -> None:
        asked = Asked()
        await asked.start()
        await asked.make_everything()
        partitions = [offset_commit.OffsetCommitRequestPartition(0, n, -1, "m" * 4096) for n in range(300)]
        answer = await asked.ask(offset_commit.OffsetCommitRequest("g", topics=[asked.committed(partitions)]))
        assert set(codes(answer)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
        await asked.broker.stop()

    asyncio.run(scenario())


def test_a_member_that_fetches_before_its_share_group_has_begun() -> None:
    async def scenario() -> None:
        asked = Asked()
        await asked.start()
        assert await asked.share_fetch_code() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asked.make_everything()
        state = delete_share_group_state.DeleteStateData(asked.topic_id, [delete_share_group_state.PartitionData(0)])
        answer = await asked.ask(delete_share_group_state.DeleteShareGroupStateRequest("shared", [state]))
        assert set(codes(answer)) == {ErrorCode.NONE}
        assert await asked.share_fetch_code() == ErrorCode.OFFSET_NOT_AVAILABLE
        await asked.begin_share_group()
        assert await asked.share_fetch_code() == ErrorCode.NONE
        await asked.broker.stop()

    asyncio.run(scenario())


def test_no_source_of_the_server_names_it() -> None:
    folder = Path(next(iter(ottla.server.__path__)))
    naming = [path for path in folder.rglob("*.py") if re.search(r"ErrorCode\.UNKNOWN_SERVER_ERROR", path.read_text())]
    assert [path.relative_to(folder).as_posix() for path in naming] == []
