"""Tests of who may import whom, in the product and in tests, scripts and compat_tests: no circle of modules or of packages,
however late or type-only an import is, and no room imports a room above it.

`lint-imports` keeps the order of the rooms as well; here it is held against the folders that exist, and against imports by name.
"""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase

import pytest

from ottla.server.group.shard import PROTOCOLS
from ottla.server.handlers import BROKER, CONTROLLER, served
from scripts import import_graph
from scripts.import_graph import (
    COMPUTED,
    FOLDERS,
    ROOT,
    TREES,
    arrows_up,
    circles,
    computed_imports,
    imports,
    modules,
    package_circles,
    room,
    room_order,
)


@functools.cache
def graph() -> import_graph.Graph:
    return import_graph.graph()


def test_no_module_stands_on_a_circle() -> None:
    edges = graph()
    pairs = [(name, to) for knot in circles(edges) for name in knot for to in edges[name] if to in knot]
    found = [f"{name}:{edges[name][to]} imports {to}" for name, to in pairs]
    assert not found, "\n".join(["these imports form a circle:", *found])


def test_nothing_in_a_package_stands_on_a_circle() -> None:
    knots = package_circles(graph())
    found = [f"{name}:{graph()[name][to]} imports {to}" for pairs in knots.values() for name, to in pairs]
    assert not knots, "\n".join([f"these form circles: {sorted(knots)}, by these imports:", *found])


def test_the_graph_has_every_tree() -> None:
    assert {name.partition(".")[0] for name in graph()} == {"ottla", *TREES}
    folders = {path.parts[0] for path in (each.relative_to(ROOT) for each in ROOT.glob("*/**/*.py")) if path.parts[0][0] != "."}
    assert folders - {"build"} == {"ottla", *FOLDERS, *TREES}


def test_no_room_imports_a_room_above_it() -> None:
    up = [f"{name}:{graph()[name][to]} imports {to}" for name, to in arrows_up(graph(), room_order())]
    assert not up, "\n".join(["these imports lead up (the order is the contract of the rooms in pyproject.toml):", *up])


def test_every_room_has_its_place_in_the_order() -> None:
    folders = {f"server/{path.name}" for path in (ROOT / "server").iterdir() if (path / "__init__.py").exists()}
    assert set(room_order()) == folders | {"ottla", *FOLDERS, *TREES} - {"server"}


@pytest.mark.parametrize(
    "text",
    [
        "from ottla.log import partition",
        "from ottla.log.partition import PartitionLog",
        "import ottla.log.partition as log",
        "def f():\n    from ottla.log.partition import PartitionLog\n",
        "if TYPE_CHECKING:\n    from ottla.log.partition import PartitionLog\n",
        "importlib.import_module('ottla.log.partition')",
    ],
)
def test_an_import_counts_wherever_it_stands(text: str) -> None:
    assert list(imports(text, {"ottla.log", "ottla.log.partition"})) == ["ottla.log.partition"]


def test_every_computed_import_is_in_the_table() -> None:
    found = {(name, words) for name, path in modules(trees=()).items() for words in computed_imports(path.read_text())}
    assert not (missing := found - COMPUTED.keys()), f"add to COMPUTED in scripts/import_graph.py what they may import: {missing}"
    assert not (gone := COMPUTED.keys() - found), f"no longer there, take them out of COMPUTED: {gone}"


@pytest.mark.parametrize("pattern", sorted(set(COMPUTED.values())))
def test_a_computed_import_means_some_module(pattern: str) -> None:
    assert any(fnmatchcase(name, pattern) for name in modules())


def test_a_computed_import_counts_for_all_that_it_may_mean() -> None:
    kinds = {name for name in graph()["ottla.server.group.shard"] if fnmatchcase(name, "ottla.server.group.*.protocol")}
    assert kinds == set(PROTOCOLS.values())
    handlers = {name for name in graph()["ottla.server.dispatch.routes"] if name.startswith("ottla.server.handlers.")}
    assert handlers == {f"ottla.server.handlers.{api.module}" for api in (served(BROKER) | served(CONTROLLER)).values()}


@pytest.mark.parametrize(
    "text", ["import_module(name)", "importlib.import_module(name, 'ottla')", "def f():\n    return __import__(name).g()\n"]
)
def test_computed_imports_are_found_wherever_they_stand(text: str) -> None:
    assert list(computed_imports(text)) == ["name"]
    assert not computed_imports(text.replace("name", "'ottla.log'"))


def test_circles_are_found_and_ways_into_them_are_not() -> None:
    edges = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["f"], "f": ["e"], "g": ["g"]}
    assert circles(edges) == [["b", "c"], ["e", "f"]]


def test_circles_of_packages_are_found_where_no_module_stands_on_one() -> None:
    edges = {"a.low": [], "a.high": ["b.mid.x"], "b.mid.x": ["a.low"], "b.top": ["b.mid.y"], "b.mid.y": ["b"], "b": []}
    assert not circles(edges)
    assert package_circles(edges) == {("a", "b"): [("a.high", "b.mid.x"), ("b.mid.x", "a.low")]}


def test_arrows_up_are_found() -> None:
    edges = {
        "ottla.server.base.clock": {"ottla.server.broker.broker": 7},
        "ottla.server.broker.broker": {"ottla.log.partition": 1},
    }
    assert arrows_up(edges, ["server/broker", "server/base", "log"]) == [
        ("ottla.server.base.clock", "ottla.server.broker.broker")
    ]
    names = ("ottla.testing", "ottla.log.disk.files", "ottla.server", "tests.fakes", "ottla")
    assert [room(name) for name in names] == ["ottla", "log", "server", "tests", ""]
