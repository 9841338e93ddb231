"""A data directory, ottla's or Apache Kafka's, stopped or running, seen from outside: its logs, their files, the small files.

It is opened anew for each page, and only read: nothing is written, and no lock is taken, so a broker may run on it or start
meanwhile. What its files mean is read by `ottla.commands`; here are their names, sizes and times. A name that a page is asked for
counts only if a listing of the directory has it, and no symbolic link below the directory is followed (`check_link`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.commands.log.checks.directory import CHECKPOINTS, LogDirectoryCheck
from ottla.commands.log.command import kind_of
from ottla.commands.log.dump.schemas import IsSecret, every_setting
from ottla.commands.log.files import SEGMENT_FILE, open_to_read
from ottla.commands.log.known_topics import METADATA_DIRECTORY, KnownTopics, read_topics
from ottla.commands.output import Failure
from ottla.console.errors import Missing
from ottla.console.running.cache import Cache
from ottla.log.disk.checkpoint import LOCK, META_PROPERTIES, TopicPartition
from ottla.log.disk.files import OsFile
from ottla.log.names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX

SETTINGS_KEPT_S: Final = 30.0
"""For how long the topics of the metadata log are kept, which may take some hundred milliseconds to read."""
_LOG_NAME: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,10})(?:\.[0-9a-f]{32}(?P<state>-delete|-stray|-future))?")
_STATES: Final = {DELETE_DIR_SUFFIX: "deleted", STRAY_DIR_SUFFIX: "stray", FUTURE_DIR_SUFFIX: "being moved here"}
_OUT_OF_USE: Final = re.compile(r"\.(deleted|cleaned|swap|tmp)$|\.(damaged)(?:\.[0-9]+)?$")
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""Linux's struct flock: type, whence, start, length, process."""


class LogName(NamedTuple):
    """A directory of a partition by its name. `state` is "" for one in use, or why it is not: see log/names.py."""

    name: str
    topic: str
    partition: int
    state: str

    @property
    def where(self) -> TopicPartition:
        return self.topic, self.partition


class FileEntry(NamedTuple):
    """A file by its name. `kind` is as `kind_of` has it, None for one that Kafka does not use; `state` is "" or the ending that
    takes it out of use: deleted, cleaned, swap, tmp, damaged."""

    name: str
    kind: str | None
    state: str
    size: int
    modified_ms: int

    @property
    def is_segment(self) -> bool:
        """Returns whether this is one of the files that the log consists of."""
        return self.kind == "log" and self.state == "" and SEGMENT_FILE.fullmatch(self.name) is not None

    @property
    def base_offset(self) -> int | None:
        found = re.match(r"[0-9]{20}(?=[.-])", self.name)
        return int(found[0]) if found else None


class LogFiles(NamedTuple):
    """The files of a log: `segments` in order, the last of which is active, and all the others. `prefix` is the directory's."""

    log: LogName
    path: Path
    segments: list[FileEntry]
    others: list[FileEntry]
    prefix: str = ""

    @property
    def key(self) -> str:
        """Returns what addresses of pages call the log."""
        return f"{self.prefix}{self.log.name}"

    @property
    def size_bytes(self) -> int:
        return sum(one.size for one in self.segments)


class Contents(NamedTuple):
    """The contents of the data directory itself; `strange` are directories that are no logs, or links to some."""

    logs: list[LogName]
    files: list[FileEntry]
    strange: list[str]


class Directory:
    """The data directory at `path`. `is_secret` says which settings of brokers are not shown; `clock` counts seconds. `prefix` is
    what the names in it have before them in addresses of pages, where there are several directories."""

    def __init__(
        self,
        path: Path,
        is_secret: IsSecret = every_setting,
        clock: Callable[[], float] = time.monotonic,
        prefix: str = "",
    ) -> None:
        self.path = path
        self.prefix = prefix
        self.is_secret = is_secret
        self._kept = Cache(SETTINGS_KEPT_S, clock)

    def contents(self) -> Contents:
        """Returns what is in the directory, without looking into the logs. Raises Missing."""
        logs: list[LogName] = []
        files: list[FileEntry] = []
        strange: list[str] = []
        with readable(self.path), os.scandir(self.path) as entries:
            for entry in entries:
                if not _is_directory(entry):
                    files += _entry_of(entry)
                elif (found := log_name(entry.name)) and not entry.is_symlink():
                    logs.append(found)
                else:
                    strange.append(entry.name)
        return Contents(sorted(logs, key=_order), sorted(files), sorted(strange))

    def log(self, name: str) -> LogFiles:
        """Returns the files of a log. Raises Missing."""
        found = next((one for one in self.contents().logs if one.name == name), None)
        if found is None:
            raise Missing(f"There is no log {name} in {self.path}.")
        return self.files_of(found)

    def files_of(self, log: LogName) -> LogFiles:
        """Returns the files of a log that a listing has. Raises Missing."""
        path = self.path / log.name
        check_link(path)
        segments: list[FileEntry] = []
        others: list[FileEntry] = []
        with readable(path), os.scandir(path) as entries:
            for entry in entries:
                check_link(entry)
                for one in _entry_of(entry):
                    (segments if one.is_segment else others).append(one)
        return LogFiles(log, path, sorted(segments), sorted(others), self.prefix)

    def file(self, name: str) -> FileEntry:
        """Returns a file of the directory itself. Raises Missing."""
        found = next((one for one in self.contents().files if one.name == name), None)
        if found is None:
            raise Missing(f"There is no file {name} in {self.path}.")
        return found

    def about(self) -> LogDirectoryCheck:
        """Returns what the small files of the directory say, read now. Raises Missing."""
        for name in (META_PROPERTIES, *CHECKPOINTS):
            check_link(self.path / name)
        with readable(self.path):
            return LogDirectoryCheck(self.path)

    def topics(self) -> KnownTopics | None:
        """Returns the topics of the metadata log in this directory, as they were at most half a minute ago; None if there is no
        such log. Raises Missing."""

        def read() -> KnownTopics | None:
            log = next((one for one in self.contents().logs if one.name == METADATA_DIRECTORY), None)
            if log is None:
                return None
            path, meta = self.files_of(log).path, self.about().meta
            with readable(path):
                return read_topics(path, -1 if meta is None else meta.node_id)

        return self._kept.get("topics", read)

    def is_held(self) -> bool | None:
        """Returns whether a broker, in another process, holds the directory; None if this system does not tell. The lock is
        asked for and not taken: a broker that starts at this moment must not find it."""
        if sys.platform != "linux":
            return None
        try:
            fd = os.open(self.path / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind: int = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0]
        except OSError:
            return None
        finally:
            os.close(fd)
        return kind != fcntl.F_UNLCK


def open_all(paths: Sequence[Path], is_secret: IsSecret = every_setting) -> tuple[Directory, ...]:
    """Returns the data directories of a broker. If there are several, each has its number as a prefix, "2:"."""
    if len(paths) == 1:
        return (Directory(paths[0], is_secret),)
    return tuple(Directory(path, is_secret, prefix=f"{number}:") for number, path in enumerate(paths, 1))


def find(files: LogFiles, name: str) -> FileEntry:
    """Returns a file of a log. Raises Missing."""
    found = next((one for one in (*files.segments, *files.others) if one.name == name), None)
    if found is None:
        raise Missing(f"There is no file {name} in {files.path}; a broker may have removed it meanwhile.")
    return found


def open_file(path: Path) -> OsFile:
    """Opens a file to be read. Raises Missing."""
    check_link(path)
    with readable(path):
        return open_to_read(path, follow=False)  # it may be one meanwhile


def check_link(path: Path | os.DirEntry[str]) -> None:
    """Raises Missing for a symbolic link: what `ottla.commands` reads beside a file it opens by its name, and would follow it."""
    if path.is_symlink():
        raise Missing(f"{os.fspath(path)} is a symbolic link, and the console follows none in a data directory.")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what keeps a file from being read into Missing, with the reason."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"{path} is not there; a broker may have removed it meanwhile.") from None
    except OSError as error:
        raise Missing(f"{path} cannot be read: {error.strerror or error}.") from None
    except Failure as failure:
        raise Missing(f"{failure}.") from None


def why_not(path: Path) -> str | None:
    """Returns why a directory is no data directory to look at; None if it is one."""
    try:
        names = os.listdir(path)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if log_name(path.name) is not None and not any(map(log_name, names)):
        return f"{path} is the directory of one partition; name the data directory around it, {path.parent}"
    known = {META_PROPERTIES, LOCK, *CHECKPOINTS}
    if not names or known & set(names) or any(map(log_name, names)):
        return None
    return f"{path} is no data directory: it has neither {META_PROPERTIES} nor a partition"


def log_name(name: str) -> LogName | None:
    """Returns what the name of a log's directory says; None for any other name."""
    found = _LOG_NAME.fullmatch(name)
    if found is None:
        return None
    return LogName(name, found["topic"], int(found["partition"]), _STATES.get(found["state"] or "", ""))


def _order(log: LogName) -> tuple[str, int, str]:
    return log.topic, log.partition, log.name


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entry_of(entry: os.DirEntry[str]) -> Iterator[FileEntry]:
    """Yields a regular file as a FileEntry; nothing for anything else, and for what has gone meanwhile."""
    try:
        about = entry.stat(follow_symlinks=False)
        if not entry.is_file(follow_symlinks=False):
            return
    except OSError:
        return
    state = _OUT_OF_USE.search(entry.name)
    ending = (state[1] or state[2]) if state else ""
    yield FileEntry(entry.name, kind_of(Path(entry.name)), ending, about.st_size, about.st_mtime_ns // 1_000_000)
