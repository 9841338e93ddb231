"""`ottla format`: what it writes, what it refuses, and that a refusal writes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from ottla.commands.format import format_all
from ottla.commands.output import Failure
from ottla.commands.program import Node
from ottla.log.disk.checkpoint import read_meta_properties
from ottla.log.disk.files import OsDisk
from ottla.log.errors import InconsistentMetadata
from ottla.server.program.app import app
from tests.memdisk import MemDisk

CLUSTER = "b3R0bGFDb21wYXRUZXN0cw"
OTHER = "AAAAAAAAAAAAAAAAAAAAAw"
BROKER = (
    "process.roles=broker\nnode.id=7\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
)
COMBINED = "process.roles=broker,controller\nnode.id=7\n"


class Rig:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.one, self.two = folder / "one", folder / "two"

    def run(self, *options: str, config: str = BROKER, cluster_id: str = CLUSTER) -> tuple[int, str, str]:
        """Returns exit code, standard output and standard error."""
        file = self.folder / "server.properties"
        file.write_text(f"{config}log.dirs={self.one},{self.two}\n")
        arguments = ["format", "-t", cluster_id, "-c", str(file), *options]
        ran = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"KAFKA_NODE_ID": None, "CLUSTER_ID": None})
        return ran.exit_code, ran.stdout, ran.stderr

    def write(
        self, directory: Path, cluster_id: str = CLUSTER, node_id: int = 7, directory_id: str = "0PTJG8ptL8_TQgsdUAkd_w"
    ) -> None:
        directory.mkdir()
        lines = [f"node.id={node_id}", f"directory.id={directory_id}", "version=1", f"cluster.id={cluster_id}"]
        (directory / "meta.properties").write_text("\n".join(["#", *lines, ""]))

    def files(self) -> dict[str, bytes | None]:
        """Returns all files with their contents, and the directories."""
        everything = [path for path in self.folder.rglob("*") if path.name != "server.properties"]
        return {str(path): path.read_bytes() if path.is_file() else None for path in everything}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_each_directory_gets_the_cluster_the_node_and_an_id_of_its_own(rig: Rig) -> None:
    assert rig.run() == (0, "", f"log directory {rig.one}: formatted\nlog directory {rig.two}: formatted\n")
    written = [read_meta_properties(OsDisk(), str(path / "meta.properties")) for path in (rig.one, rig.two)]
    assert {(meta.cluster_id, meta.node_id) for meta in written if meta} == {(CLUSTER, 7)}
    assert len({meta.directory_id for meta in written if meta}) == 2
    assert [sorted(path.name for path in directory.iterdir()) for directory in (rig.one, rig.two)] == [["meta.properties"]] * 2
    text = (rig.one / "meta.properties").read_text()
    assert re.fullmatch(
        r"#\n#\w{3} \w{3} \d\d [\d:]{8} UTC \d{4}\nnode.id=7\ndirectory.id=.{22}\nversion=1\ncluster.id=.+\n", text
    )


def test_the_metadata_log_may_have_a_directory_of_its_own(rig: Rig) -> None:
    of_metadata = rig.folder / "metadata"
    assert rig.run(config=f"{BROKER}metadata.log.dir={of_metadata}\n")[0] == 0
    assert (of_metadata / "meta.properties").exists()


def test_formatted_directories_need_an_option_and_stay_as_they_are(rig: Rig) -> None:
    rig.write(rig.one)
    before = rig.files()
    code, out, errors = rig.run()
    assert (code, out) == (1, "")
    assert errors == f"ottla: log.dirs: formatted already: {rig.one}; with --ignore-formatted only the others are formatted\n"
    assert rig.files() == before
    assert not rig.two.exists()
    code, out, errors = rig.run("--ignore-formatted", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out) == [
        {"name": str(rig.one), "result": "formatted before", "error": None},
        {"name": str(rig.two), "result": "formatted", "error": None},
    ]
    assert {name: rig.files()[name] for name in before} == before
    assert rig.run("-g")[0] == 0


@pytest.mark.parametrize("options", [(), ("-g",)])
@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (
            lambda rig: rig.write(rig.two, OTHER),
            f"belongs to node 7 of cluster {OTHER}; this is node 7 of {CLUSTER}; give --cluster-id",
        ),
        (lambda rig: rig.write(rig.two, node_id=8), f"belongs to node 8 of cluster {CLUSTER}; this is node 7 of"),
        (lambda rig: (rig.write(rig.two), rig.write(rig.folder / "o3")), "have the same directory.id"),
        (lambda rig: (rig.two.mkdir(), (rig.two / "meta.properties").write_text("version=1\n")), "is missing or malformed"),
        (lambda rig: (rig.two / "__cluster_metadata-0").mkdir(parents=True), "holds __cluster_metadata-0 but has lost its"),
        (lambda rig: rig.one.write_text(""), "/one/meta.properties: Not a directory"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_and_nothing_is_written(
    rig: Rig, prepare: Callable[[Rig], object], text: str, options: tuple[str, ...]
) -> None:
    prepare(rig)
    before = rig.files()
    code, out, errors = rig.run(*options, config=f"{BROKER}metadata.log.dir={rig.folder / 'o3'}\n" if "same" in text else BROKER)
    assert (code, out) == (1, "")
    assert text in errors
    assert errors.count("\n") == 1
    assert rig.files() == before


def test_a_directory_that_cannot_be_read_is_left_out_as_in_kafka(rig: Rig) -> None:
    rig.two.write_text("")
    code, _, errors = rig.run()
    assert code == 0
    assert errors == f"log directory {rig.one}: formatted\nlog directory {rig.two}: left out: Not a directory\n"


def test_a_directory_that_cannot_be_written_fails_the_command(rig: Rig) -> None:
    rig.two.symlink_to(rig.folder / "nowhere" / "further")
    code, _, errors = rig.run()
    assert code == 1
    assert str(rig.two) in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "config", "code", "text"),
    [
        (
            ("--standalone",),
            BROKER,
            1,
            "--standalone is for Apache Kafka's controllers, not for process.roles=broker; leave it out",
        ),
        (("--initial-controllers", "1@a:1:x"), BROKER, 1, "--initial-controllers is for Apache Kafka's controllers"),
        (("-I", "1@a:1:x"), COMBINED, 1, "not for ottla as its own controller"),
        (("--feature", "share.version=1"), BROKER, 0, "--feature changes nothing for a broker"),
        (("--release-version", "4.0"), BROKER, 0, "--release-version changes nothing for a broker"),
        (("-S", "SCRAM-SHA-256=[name=a,password=b]"), COMBINED, 1, "--add-scram: ottla as its own controller begins with"),
        (("--standalone",), COMBINED, 0, "formatted"),
        (("--no-initial-controllers",), BROKER, 0, "formatted"),
    ],
)
def test_options_of_kafkas_tool_for_controllers(rig: Rig, options: tuple[str, ...], config: str, code: int, text: str) -> None:
    found, _, errors = rig.run(*options, config=config)
    assert found == code
    assert text in errors
    assert rig.one.exists() == (code == 0)


@pytest.mark.parametrize("cluster_id", ["", "a b", "a=b", "a\nb", "a\\u0041"])
def test_an_id_that_the_file_cannot_hold_is_wrong_usage(rig: Rig, cluster_id: str) -> None:
    assert rig.run(cluster_id=cluster_id)[0] == 2
    assert not rig.one.exists()


def test_a_wrong_configuration_names_the_setting(rig: Rig) -> None:
    code, _, errors = rig.run(config="process.roles=controller\n")
    assert code == 1
    assert errors.startswith("ottla: process.roles: ")
    assert not rig.one.exists()


def test_a_node_of_its_own_starts_with_what_was_formatted(rig: Rig) -> None:
    import ottla.testing

    assert rig.run(config=COMBINED)[0] == 0
    before = rig.files()
    with ottla.testing.Broker(data_dir=rig.one, node_id=7) as broker:
        assert broker.cluster_id == CLUSTER
    assert {name: data for name, data in rig.files().items() if name in before} == before


def test_what_was_formatted_is_known_again() -> None:
    disk = MemDisk()
    node = Node(7, ("/data/one",), "/data/one", follows_controllers=True)
    assert [outcome.result for outcome in format_all(disk, node, CLUSTER, False, Random(1), 0)] == ["formatted"]
    with pytest.raises(Failure, match="formatted already"):
        format_all(disk, node, CLUSTER, False, Random(1), 0)
    with pytest.raises(InconsistentMetadata):
        format_all(disk, node, OTHER, True, Random(1), 0)
