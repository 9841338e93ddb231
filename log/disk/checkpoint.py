"""The small text files beside the segments, each in exactly Kafka's format, read and written whole.

In a log directory:

- `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks),
  `cleaner-offset-checkpoint`: a line "0" (version), a line with the number of entries, then "topic partition offset" lines.
- `log-start-offset-checkpoint.crc`, which only ottla knows: CRC-32C of that file, as hexadecimal digits, of what it was before
  its last change and after it. Wrong starts would delete records, and Kafka's form has no checksum.
- `meta.properties`, version 1 (KIP-858): a Java properties file with `version`, `cluster.id`, `node.id`, `directory.id`.
- `.kafka_cleanshutdown`: JSON with `version` 0 and the `brokerEpoch`; it exists only between a clean stop and the next start.

In a partition's directory:

- `leader-epoch-checkpoint`: as above with "epoch start_offset" lines (`log/epochs.py` says what for). Kafka creates it empty and
  fills it with the first epoch.
- `partition.metadata`: "version: 0" and "topic_id: " with Kafka's 22 characters for 16 bytes.

All are written by temporary file, fsync and rename. Checkpoints only save work: one that cannot be read raises `CorruptSnapshot`,
and the caller goes on without it. `meta.properties` says whose the directory is, which may not be guessed: if it cannot be read,
that is `InconsistentMetadata`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from time import gmtime, strftime
from typing import Final, NamedTuple

from ottla.log.disk.errors import CorruptSnapshot, InconsistentMetadata
from ottla.log.disk.files import Disk, FileTooLarge
from ottla.wire.crc import crc32c

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
CHECKSUM_SUFFIX: Final = ".crc"

_VERSION: Final = 0
_DIRECTORY_NAME: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_MAX_PARTITION: Final = 2**31 - 1
_MAX_EPOCH: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1
_MAX_EPOCH_OF_BROKERS: Final = 2**63 - 1

TopicPartition = tuple[str, int]


class EpochEntry(NamedTuple):
    """Says that a leader epoch began at an offset."""

    epoch: int
    start_offset: int


def encode_lines(lines: Sequence[str]) -> bytes:
    """Returns the bytes of a checkpoint with these entries."""
    return "\n".join((str(_VERSION), str(len(lines)), *lines, "")).encode()


def _decode_lines(data: bytes, path: str, width: int) -> list[list[str]]:
    """Returns the entries of a checkpoint file, each split into `width` words. An empty file has none: Kafka creates them empty.
    Raises CorruptSnapshot."""
    if not data:
        return []
    try:
        version, count, *lines = data.decode().splitlines()
        entries = [line.split() for line in lines]
        if int(version) != _VERSION:
            raise CorruptSnapshot(f"{path}: version {version} is not known")
        if int(count) != len(entries) or any(len(entry) != width for entry in entries):
            raise CorruptSnapshot(f"{path}: it has {len(entries)} entries, not {count} as it says, or one of them is malformed")
    except ValueError:  # UnicodeDecodeError, too few lines, not a number
        raise CorruptSnapshot(f"{path}: it does not consist of a version, a number of entries, and that many lines") from None
    return entries


def parse_directory_name(name: str) -> TopicPartition | None:
    """Returns the partition whose directory has exactly this name; None if it is not a partition's. The checkpoints have a line
    for each partition, and a single name with a space or a line break in it would make all of them unreadable.
    """
    match = _DIRECTORY_NAME.fullmatch(name)
    if match is None or (partition := int(match["partition"])) > _MAX_PARTITION:
        return None
    return sys.intern(match["topic"]), partition  # a topic has thousands of partitions, which all keep its name


def offset_line(name: TopicPartition, offset: int) -> str:
    """Returns the line of a partition in an offset checkpoint."""
    return f"{name[0]} {name[1]} {offset}"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Returns the bytes of an offset checkpoint."""
    return encode_lines([offset_line(*entry) for entry in offsets.items()])


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Returns (topic, partition) -> offset, empty if there is no file. Raises CorruptSnapshot."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return {}
    except FileTooLarge as error:
        raise CorruptSnapshot(str(error)) from None
    try:
        return {(topic, int(partition)): int(offset) for topic, partition, offset in _decode_lines(data, path, 3)}
    except ValueError:
        raise CorruptSnapshot(f"{path}: a partition or an offset in it is not a number") from None


def encode_checksums(contents: Iterable[bytes]) -> bytes:
    """Returns the bytes of a file of checksums: one line for each content that the file beside it may have."""
    return "".join(f"{crc32c(content):08x}\n" for content in contents).encode()


def read_as_written(disk: Disk, path: str) -> bytes | None:
    """Returns the content of a file if ottla has given it to it, by the checksums beside it; None if not, or if that is not
    known. Raises OSError."""
    try:
        sums = disk.read_bytes(path + CHECKSUM_SUFFIX)
        data = disk.read_bytes(path)
    except (FileNotFoundError, FileTooLarge):
        return None
    return data if encode_checksums([data]).strip() in sums.split() else None


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Returns the bytes of a `leader-epoch-checkpoint`."""
    return encode_lines([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def parse_epochs(text: str) -> list[EpochEntry]:
    """Returns the entries of a `leader-epoch-checkpoint`. Raises CorruptSnapshot; the caller can rebuild it from the batches."""
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [EpochEntry(*map(int, line.split(" "))) for line in lines[2:] if line]
    except (IndexError, ValueError, TypeError) as problem:
        what = "it does not consist of a version, a number of entries, and that many lines of two numbers"
        raise CorruptSnapshot(f"leader-epoch-checkpoint cannot be read: {what}") from problem
    if version != _VERSION:
        raise CorruptSnapshot(f"leader-epoch-checkpoint has version {version}, only {_VERSION} is known")
    if count != len(entries) or not text.endswith("\n"):  # half a number looks like a number
        raise CorruptSnapshot(f"leader-epoch-checkpoint announces {count} entries and has {len(entries)}, or the last is cut off")
    if not all(0 <= epoch <= _MAX_EPOCH and 0 <= start_offset <= _MAX_OFFSET for epoch, start_offset in entries):
        raise CorruptSnapshot("leader-epoch-checkpoint has a number that is no epoch or offset")
    return entries


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """Returns the entries of a `leader-epoch-checkpoint`; none if there is no file or an empty one. Raises CorruptSnapshot."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return []
    except FileTooLarge as error:
        raise CorruptSnapshot(str(error)) from None
    try:
        return parse_epochs(data.decode()) if data else []
    except UnicodeDecodeError:
        raise CorruptSnapshot(f"{path}: it is not text") from None


def uuid_text(uuid: bytes) -> str:
    """Returns 16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """Returns the 16 bytes that Kafka's 22 characters stand for. Raises ValueError."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a Kafka uuid: {error}") from None
    if len(uuid) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a Kafka uuid")
    return uuid


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def read_partition_metadata(disk: Disk, path: str) -> bytes | None:
    """Returns the topic id; None if there is no file or, after a power cut, an empty one. Raises InconsistentMetadata if it says
    something else.
    """
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    except FileTooLarge as error:
        raise InconsistentMetadata(str(error)) from None
    if not data.strip(b"\0"):
        return None
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        if fields["version"] != "0":
            raise InconsistentMetadata(f"{path} is not readable: version {fields['version']}, only 0 is known")
        return uuid_bytes(fields["topic_id"])
    except (ValueError, KeyError):
        raise InconsistentMetadata(f"{path} is not readable: it does not consist of a version and a topic id") from None


class MetaProperties(NamedTuple):
    """Says to which cluster and node a log directory belongs. `directory_id` is in Kafka's form of 22 characters."""

    cluster_id: str
    node_id: int
    directory_id: str


def encode_meta_properties(meta: MetaProperties, now_ms: int) -> bytes:
    """Returns the bytes of meta.properties, with the comment lines that java.util.Properties writes, one of which is the time."""
    at = strftime("%a %b %d %H:%M:%S UTC %Y", gmtime(now_ms // 1000))
    lines = [
        "#",
        f"#{at}",
        f"node.id={meta.node_id}",
        f"directory.id={meta.directory_id}",
        "version=1",
        f"cluster.id={meta.cluster_id}",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def parse_properties(text: str) -> dict[str, str]:
    """Parses the plain subset of Java's properties that Kafka's tools write: comments, `key=value`, a backslash before a special
    character.
    """
    found = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip().replace("\\", "")
    return found


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """Returns the content of meta.properties, None if the directory was never formatted. Raises InconsistentMetadata if the file
    is not readable or of another version."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        fields = parse_properties(data.decode())
        if (version := fields["version"]) != "1":
            raise InconsistentMetadata(f"{path}: version {version}, only 1 is known")
        uuid_bytes(fields["directory.id"])
        return MetaProperties(fields["cluster.id"], int(fields["node.id"]), fields["directory.id"])
    except (ValueError, KeyError):
        what = "version, cluster.id, node.id or directory.id is missing or malformed"
        raise InconsistentMetadata(f"{path} is not readable: {what}") from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """Returns the broker epoch of the last clean stop, -1 if it is not readable; None if there was none. It is the file's
    presence that makes the stop a clean one."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return epoch if type(epoch) is int and 0 <= epoch <= _MAX_EPOCH_OF_BROKERS else -1
