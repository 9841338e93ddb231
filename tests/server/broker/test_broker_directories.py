"""A whole broker whose log directories fail, while it runs or at its start."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.server.broker.broker import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import create_topics, metadata, produce
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.asking import ask
from tests.log.support import batch
from tests.server.broker.whole_broker import config, disk, run
from tests.server.handlers.data_calls import produce_request


def test_it_says_so_when_no_log_directory_works_any_more() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(), disk=storage)
        await broker.start()
        storage.fail("append", errno.EIO, path="__cluster_metadata-0")
        request = CreateTopicsRequest([CreatableTopic("late", 1, 1)], 1000)
        answer = await ask(broker.port, create_topics, 4, request)
        assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await broker.offline.wait()
        await broker.stop()

    run(scenario)


def test_a_partition_in_a_directory_that_failed_is_not_begun_anew_in_another() -> None:
    async def scenario() -> None:
        memory = disk()
        broker = Broker(config(log_dirs="/data,/more"), disk=memory)
        await broker.start()
        await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)]))
        await broker.stop()
        assert memory.exists("/more/t-1")
        memory.fail("list", path="/more")
        broker = Broker(config(log_dirs="/data,/more"), disk=memory)
        await broker.start()
        assert broker.context is not None
        assert broker.context.replicas.get("t", 0) is not None
        assert broker.context.replicas.get("t", 1) is None
        assert broker.context.replicas.why_missing("t", 1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert not memory.exists("/data/t-1")
        await broker.stop()

    run(scenario)


def test_partitions_of_a_directory_that_failed_have_no_leader_until_it_works_again() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000))
        assert broker.context is not None
        lost = next(replica for replica in broker.context.replicas if replica.log.directory.path == "/more")
        storage.fail("append", path="/more")
        failing = await ask(broker.port, produce, 8, produce_request("t", {lost.partition: batch()}, 8))
        assert failing.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = await ask(broker.port, metadata, 8, metadata.MetadataRequest(topics=None))
        seen = [
            (each.partition_index, each.error_code, each.leader_id, each.isr_nodes, each.offline_replicas)
            for each in parts(answer)
        ]
        gone: tuple[int, ErrorCode, int, list[int], list[int]]
        gone = (lost.partition, ErrorCode.LEADER_NOT_AVAILABLE, -1, [], [1])
        assert seen == sorted([gone, (1 - lost.partition, ErrorCode.NONE, 1, [1], [])])
        again = await ask(broker.port, produce, 8, produce_request("t", {0: batch(), 1: batch()}, 8))
        codes = {each.index: each.error_code for each in again.responses[0].partition_responses}
        assert codes == {lost.partition: ErrorCode.KAFKA_STORAGE_ERROR, 1 - lost.partition: ErrorCode.NONE}
        assert not broker.offline.is_set()
        await broker.stop()
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        answer = await ask(broker.port, metadata, 8, metadata.MetadataRequest(topics=None))
        assert [(each.leader_id, each.isr_nodes, each.offline_replicas) for each in parts(answer)] == [(1, [1], [])] * 2
        await broker.stop()

    run(scenario)


def parts(answer: metadata.MetadataResponse) -> list[metadata.MetadataResponsePartition]:
    return answer.topics[0].partitions


def test_a_directory_that_cannot_be_opened_leaves_its_partitions_without_a_leader() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000))
        await broker.stop()
        storage.fail("list", path="/more")
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        answer = await ask(broker.port, metadata, 8, metadata.MetadataRequest(topics=None))
        assert sorted(each.leader_id for each in parts(answer)) == [-1, 1]
        await broker.stop()

    run(scenario)


def test_without_the_directory_of_the_metadata_the_broker_is_at_its_end() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        storage.fail("sync", path="/data/__cluster_metadata-0")
        await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000))
        await broker.offline.wait()
        await broker.stop()

    run(scenario)


@pytest.mark.parametrize("second", ["file", "file/beneath"])
def test_a_directory_that_cannot_even_be_made_is_offline_and_the_others_serve(second: str, tmp_path: Path) -> None:
    """At the first start and at the next, also after a crash."""

    async def scenario() -> None:
        (tmp_path / "file").touch()
        for clean in (False, True):
            broker = Broker(config(log_dirs=f"{tmp_path}/one,{tmp_path}/{second}"))
            await broker.start()
            assert broker.context is not None
            failed = [directory.failed is not None for directory in broker.context.replicas.logs.directories]
            assert failed == [False, True]
            if not clean:
                await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000))
            answer = await ask(broker.port, metadata, 8, metadata.MetadataRequest(topics=None))
            assert [each.leader_id for each in parts(answer)] == [1, 1]
            await broker._close(clean=clean)

    run(scenario)


def test_a_directory_that_cannot_be_written_at_the_start_is_offline_and_the_others_serve() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        await ask(broker.port, create_topics, 4, CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000))
        await broker.stop()
        storage.fail("lock", errno.EROFS, path="/more")
        broker = Broker(config(log_dirs="/data,/more"), disk=storage)
        await broker.start()
        answer = await ask(broker.port, metadata, 8, metadata.MetadataRequest(topics=None))
        assert sorted(each.leader_id for each in parts(answer)) == [-1, 1]
        await broker.stop()
        storage.fail("lock", errno.EROFS, path="/data")
        with pytest.raises(OSError, match="Read-only"):
            await Broker(config(log_dirs="/data,/more"), disk=storage).start()

    run(scenario)
