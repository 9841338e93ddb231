"""Clients in other languages, as programs with one command shape: compat_tests/go, node and rust. Built here, driven from here.

    client NAME COMMAND BOOTSTRAP     arguments: one line of JSON on stdin; answer: lines of JSON on stdout; status 0 or an error

A record, in and out: {partition, offset, timestamp_ms, key, value, headers: [[name, value], ...]}; texts, or null.

    command  arguments                                     prints
    produce  topic, sends: [{codec, acks, idempotent,      {"offsets": [...]} for each send, one offset a record, -1 where the
             records}]; acks none, leader or all           client is not told; every send is a producer of its own
    transact topic, transactional_id, rounds: [{records,   {"offsets": [...]} for each round
             commit, and group with offsets or none}]
    consume  topic, partitions, count; from the start,     {"record": ...} for each
             or offset, or timestamp_ms; committed: true
             or false, or as the client does by itself
    join     group, topic, balancer ("range" or none)      {"assigned": [...]}, all it has, whenever that changes;
                                                           {"record": ...}, each committed then; {"left": true} after stdin closed
    admin    calls: [{call, ...}], see client_jobs.py      {"result": ...} or {"error": text} for each
    ways     ways: [{bootstrap, topic, protocol, ...}],    for each, after a record that was sent and read: {"record": ...} and
             see security/ways.py                          {"result": null}, or {"error": [class, ...], "message": text}

A program is built on first use into ${OTTLA_CACHE:-~/.cache/ottla}/programs/<language>-<hash of its sources>, beside and then
renamed, under a lock: parallel workers build once, a changed source is built anew, and the checkout stays clean.
Only the languages' own clients of their registries are used: go, npm, cargo. Go's and npm's packages are locked with checksums.
Cargo's are not: its lock file names a registry's host in every entry, so Cargo.toml pins the direct dependencies exactly instead.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from compat_tests.reference.maven import cache_dir
from compat_tests.waiting import wait_for

SOURCES = Path(__file__).resolve().parent
NOT_SOURCES = {"node_modules", "target", "Cargo.lock"}
RUN_TIMEOUT_S = 90.0
LEAVE_TIMEOUT_S = 30.0


class BuildFailed(RuntimeError):
    """A tool is missing or could not build a program; the text says which and why."""


@dataclass(frozen=True)
class Language:
    """A language, with the way in which its program is built in a copy of its sources, and started from there."""

    name: str
    tool: str
    package: str  # Debian's, for the message
    build: tuple[str, ...]
    start: tuple[str, ...]  # relative to the built directory where it begins with ./
    settings: dict[str, str] = field(
        default_factory=dict, hash=False
    )  # environment of the build; {cache}: a directory that stays


GO = Language("go", "go", "golang", ("go", "build", "-o", "client", "."), ("./client",), {"CGO_ENABLED": "0"})
NODE = Language("node", "npm", "nodejs npm", ("npm", "ci", "--no-audit", "--no-fund"), ("node", "./client.mjs"))
RUST = Language(
    "rust",
    "cargo",
    "cargo gcc libssl-dev make pkg-config",
    ("sh", "-c", 'cargo build --quiet && cp "$CARGO_TARGET_DIR/debug/client" client'),
    ("./client",),
    {"CARGO_TARGET_DIR": "{cache}/rust-target", "CARGO_PROFILE_DEV_DEBUG": "0"},  # librdkafka is built once, not with each change
)


def programs_dir() -> Path:
    """Returns the directory in which programs are built."""
    return cache_dir() / "programs"


def build_settings(language: Language) -> dict[str, str]:
    """The environment variables of a build, beside those that there are. Builds that have the same ones share what they make."""
    return {name: value.format(cache=programs_dir()) for name, value in language.settings.items()}


def built(language: Language) -> Path:
    """The directory with the language's program, built now if this machine has not seen these sources. Raises BuildFailed."""
    sources = sorted(p for p in (SOURCES / language.name).rglob("*") if p.is_file() and not NOT_SOURCES & set(p.parts))
    seen = hashlib.sha256()
    for path in sources:
        seen.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes() + b"\0")
    target = programs_dir() / f"{language.name}-{seen.hexdigest()[:12]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{language.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():  # else built before, or by another process while this one waited
            _build(language, sources, target)
    return target


def _build(language: Language, sources: list[Path], target: Path) -> None:
    if shutil.which(language.tool) is None:
        raise BuildFailed(f"{language.tool} is not installed; on Debian: apt-get install {language.package}")
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for path in sources:
        copy = partial / path.relative_to(SOURCES / language.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    settings = build_settings(language)
    done = subprocess.run(language.build, cwd=partial, env=os.environ | settings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(language.build)} in {partial}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    partial.rename(target)


@cache
def command_of(language: Language) -> list[str]:
    directory = built(language)
    return [str(directory / part) if part.startswith("./") else part for part in language.start]


@dataclass(frozen=True)
class Program:
    """One client library, reached through its language's program."""

    language: Language
    name: str

    def run(self, command: str, bootstrap: str, **arguments: Any) -> list[dict[str, Any]]:
        """Run one command to its end; its lines. A failure shows what was asked and what the program said."""
        asked = json.dumps(arguments)
        given = [*command_of(self.language), self.name, command, bootstrap]
        try:
            done = subprocess.run(given, input=asked + "\n", capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            said = [(part or b"").decode(errors="replace")[-4000:] for part in (late.stdout, late.stderr)]
            raise AssertionError(f"{given} {asked[:1000]}: not within {RUN_TIMEOUT_S} s:\n" + "\n".join(said)) from None
        assert done.returncode == 0, f"{given} {asked[:1000]}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def produce(self, bootstrap: str, topic: str, *sends: dict[str, Any]) -> list[list[int]]:
        return [line["offsets"] for line in self.run("produce", bootstrap, topic=topic, sends=sends)]

    def transact(self, bootstrap: str, topic: str, transactional_id: str, *rounds: dict[str, Any]) -> list[list[int]]:
        """The offsets of each round's records."""
        lines = self.run("transact", bootstrap, topic=topic, transactional_id=transactional_id, rounds=rounds)
        return [line["offsets"] for line in lines]

    def consume(self, bootstrap: str, topic: str, count: int, **arguments: Any) -> list[dict[str, Any]]:
        """Records sorted by partition and offset."""
        lines = self.run("consume", bootstrap, topic=topic, count=count, **arguments)
        return sorted((line["record"] for line in lines), key=lambda record: (record["partition"], record["offset"]))

    def admin(self, bootstrap: str, *calls: dict[str, Any]) -> list[dict[str, Any]]:
        """One {"result": ...} or {"error": ...} for each call."""
        return self.run("admin", bootstrap, calls=calls)

    @contextmanager
    def join(self, bootstrap: str, group: str, topic: str, **arguments: Any) -> Iterator[Member]:
        """A member of a group, which leaves at the end of the block or by its `leave`."""
        given = [*command_of(self.language), self.name, "join", bootstrap]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
            member = Member(self.name, process)
            try:
                member.begin({"group": group, "topic": topic, **arguments})
                yield member
                member.leave()
            finally:
                member.end()
                errors.seek(0)
                print(f"--- {self.name} in {group}:", *member.transcript[-200:], errors.read()[-4000:], sep="\n")


class Member:
    """A running `join`. What it prints is read by a thread, and shown by pytest when the test fails."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name, self.process = name, process
        self.assigned: list[int] = []
        self.records: list[dict[str, Any]] = []
        self.left = False
        self.transcript: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)

    def begin(self, arguments: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.transcript.append(line.rstrip())
            event = json.loads(line)
            if "assigned" in event:
                self.assigned = event["assigned"]
            elif "record" in event:
                self.records.append(event["record"])
            else:
                self.left = bool(event["left"])

    def leave(self) -> None:
        """Ask it to leave the group, and wait until it did and ended well. Twice does no harm."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(LEAVE_TIMEOUT_S) == 0, f"{self.name} ended with status {self.process.returncode}"
        self._reader.join(LEAVE_TIMEOUT_S)
        assert self.left, f"{self.name} ended without leaving"

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(LEAVE_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def wait_while_alive(members: list[Member], condition: Callable[[], bool], what: str) -> None:
    """wait_for, but a member that died is a failure at once."""

    def check() -> bool:
        for member in members:
            assert member.process.poll() is None, f"{member.name} ended with status {member.process.returncode} while: {what}"
        return condition()

    wait_for(check, what)


if __name__ == "__main__":  # all of them, before the tests: a cold build takes longer than a test may
    for language in (GO, NODE, RUST):
        print(built(language))
