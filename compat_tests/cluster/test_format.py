"""`ottla format` beside Apache Kafka's own kafka-storage: the same directories, the same files, the same exit codes.

The two differ where a difference helps: ottla refuses `--initial-controllers` for a broker, and makes directories for their owner
alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.reference import jvm
from compat_tests.reference.kafka import CLUSTER_ID

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAw"
SETTINGS = """process.roles=broker
node.id=7
listeners=PLAINTEXT://127.0.0.1:9092
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
"""
TIMEOUT_S = 60


def tool(kind: str) -> list[str]:
    return [sys.executable, "-m", "ottla"] if kind == "ottla" else [*jvm.java("kafka"), "kafka.tools.StorageTool"]


def formatted(directory: Path, cluster_id: str = CLUSTER_ID, node_id: int = 7) -> None:
    directory.mkdir(parents=True)
    lines = ["version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", "directory.id=0PTJG8ptL8_TQgsdUAkd_w", ""]
    (directory / "meta.properties").write_text("\n".join(lines))


def files(folder: Path) -> dict[str, str]:
    """Returns all files and directories with what they hold; `*` stands for times and for random ids."""
    found = {}
    for path in sorted(folder.glob("d*/**/*")):
        text = path.read_text() if path.is_file() else ""
        found[str(path.relative_to(folder))] = re.sub(r"(?m)^#.+$|(?<=directory.id=)(?!0PTJ).+$", "*", text)
    return found


def run(kind: str, folder: Path, *options: str) -> int:
    config = folder / "server.properties"
    config.write_text(f"{SETTINGS}log.dirs={folder / 'd1'},{folder / 'd2'}\n")
    command = [*tool(kind), "format", "--cluster-id", CLUSTER_ID, "--config", str(config), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=TIMEOUT_S, check=False).returncode


def both(folder: Path, prepare: Callable[[Path], object], *options: str) -> tuple[int, dict[str, str]]:
    """Returns the exit code and the files, which must be the same by either tool."""
    results = []
    for kind in ("ottla", "kafka"):
        place = folder / kind
        place.mkdir()
        prepare(place)
        results.append((run(kind, place, *options), files(place)))
    assert results[0] == results[1]
    return results[0]


def test_new_directories(tmp_path: Path) -> None:
    code, written = both(tmp_path, lambda place: None)
    assert code == 0
    assert written["d1/meta.properties"] == written["d2/meta.properties"]
    assert list(written) == ["d1/meta.properties", "d2/meta.properties"]


@pytest.mark.parametrize(
    ("prepare", "options", "code", "count"),
    [
        (lambda place: formatted(place / "d1"), (), 1, 1),
        (lambda place: formatted(place / "d1"), ("--ignore-formatted",), 0, 2),
        (lambda place: formatted(place / "d2", OTHER_CLUSTER), ("-g",), 1, 1),
        (lambda place: formatted(place / "d2", node_id=8), ("-g",), 1, 1),
        (lambda place: (place / "d2").write_text(""), (), 0, 1),
        (lambda place: None, ("--standalone",), 1, 0),
    ],
)
def test_formatted_and_foreign_directories(
    tmp_path: Path, prepare: Callable[[Path], object], options: tuple[str, ...], code: int, count: int
) -> None:
    found, written = both(tmp_path, prepare, *options)
    assert (found, len(written)) == (code, count)
