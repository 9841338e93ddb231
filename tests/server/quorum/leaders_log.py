"""A leader's metadata log, from which batches are taken as a follower would fetch them, and the follower's side of it."""

from __future__ import annotations

from random import Random

from ottla.log.config import LogConfig
from ottla.log.management.manager import LogManager
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.log_settings import metadata_log_config
from ottla.server.metadata.metadata_log import TOPIC_ID, voter_controls
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.quorum.following_log import FollowingLog
from ottla.wire.batch import read_header, stamp
from ottla.wire.messages.internal.leader_change_message import LeaderChangeMessage
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.metadata_records import LEADER_CHANGE, METADATA_VERSION, build_control, build_encoded, encode_value
from ottla.wire.primitives import WireStruct
from tests.memdisk import MemDisk
from tests.server.metadata.support import CLUSTER_ID, NOW_MS

LEADER_ID = 3000
PATH = "/data/__cluster_metadata-0"


class LeadersLog:
    """The batches that the leader of the quorum has, one after the other."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0

    def add(self, batch: bytes, epoch: int = 1) -> None:
        header = read_header(batch)
        self.batches.append(stamp(header, self.end, epoch) + batch[16:])
        self.end += header.records_count

    def begin(self, epoch: int = 1) -> None:
        """A new leader's first batch."""
        self.add(build_control([(LEADER_CHANGE, LeaderChangeMessage(0, LEADER_ID))], NOW_MS), epoch)

    def name_voters(self, epoch: int = 1) -> None:
        self.add(build_control(voter_controls(LEADER_ID, b"v" * 16, []), NOW_MS), epoch)

    def write(self, *records: WireStruct, epoch: int = 1) -> None:
        """One batch with these records."""
        self.add(build_encoded([encode_value(each, METADATA_VERSION) for each in records], NOW_MS), epoch)

    def topics(self, *names: str, epoch: int = 1) -> None:
        self.write(*(topic(name) for name in names), epoch=epoch)

    def fetched(self, offset: int) -> bytes:
        """Returns what is behind an offset."""
        return b"".join(each for each in self.batches if read_header(each).last_offset >= offset)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name, name.encode().ljust(16, b"."))


class Follower:
    """A broker's copy of the log, on a disk in memory. `open` again for another start on the same disk."""

    def __init__(self, disk: MemDisk | None = None, voters: tuple[int, ...] = ()) -> None:
        self.disk = disk or MemDisk(lambda: NOW_MS)
        self.voters = voters
        self.open()

    def open(self) -> None:
        """Starts anew; what was open is not closed in order."""
        self.logs = LogManager(
            self.disk,
            ["/data"],
            lambda: NOW_MS,
            LogConfig.from_overrides({}),
            random=Random(1),
            metadata_dir="/data",
            follows_metadata=True,
        )
        self.logs.lock()
        self.logs.format(CLUSTER_ID, 1)
        self.logs.open_all()
        partition_log = self.logs.create(CLUSTER_METADATA, 0, TOPIC_ID, metadata_log_config({}), is_new=False)
        self.log = FollowingLog(partition_log, self.disk, self.voters)
        self.image = MetadataImage(CLUSTER_ID)
        self.log.load(self.image)

    def follow(self, leader: LeadersLog, high_watermark: int | None = None) -> None:
        """Fetches all that the leader has, and applies what counts: by default all of it."""
        job = self.log.append(leader.fetched(self.log.end_offset))
        if job is not None:
            job.run_and_finish()
        self.log.note_high_watermark(leader.end if high_watermark is None else high_watermark)
        self.apply()

    def apply(self) -> None:
        for _ in self.log.apply(self.image):
            pass

    def close(self, *, clean: bool = True) -> None:
        self.logs.close(clean)

    @property
    def topics(self) -> list[str]:
        return list(self.image.topics)
