"""ARCHITECTURE.md says of the tree what is so: which folder imports which, which rooms and modules there are, and their order."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator

import pytest

from scripts import import_graph
from scripts.import_graph import FOLDERS, ROOT, TREES, modules, room_order

NAME = re.compile(r"`(\w+)`")
"""The name of a folder at the top of the tree. What ends in a slash or in `.py` says more closely what is meant."""
FIRST_CELL = re.compile(r"`([\w/.]+)`")


@functools.cache
def graph() -> import_graph.Graph:
    return import_graph.graph()


def rows(heading: str) -> dict[str, list[str]]:
    """Returns the lines of the table under a row of headings: first cell -> the others."""
    _, _, below = (ROOT / "ARCHITECTURE.md").read_text().partition(f"{heading}\n|---|")
    assert below, f"ARCHITECTURE.md has no table with the heading {heading}"
    lines = [line.strip("| ").split(" | ") for line in below.partition("\n\n")[0].splitlines()[1:]]
    return {first: others for first, *others in lines}


def may_import() -> dict[str, str]:
    return {first.strip("`/"): cells[-1] for first, cells in rows("| folder | holds | may import |").items()}


def folder(module: str) -> str:
    """Returns the folder at the top of the tree in which a module stands; `ottla` for those of the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "ottla" and len(parts) > 1 and parts[1] in FOLDERS else parts[0]


def imported(name: str, room: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields what the modules of a folder import of other folders, as (folder, module, imported module): only those of a room in
    it, or those of all others. The version, which the package itself has, does not count."""
    for module, targets in graph().items():
        if folder(module) == name and module.startswith(f"ottla.{name}.{room}." if room else ""):
            yield from ((folder(target), module, target) for target in targets if folder(target) != name and target != "ottla")


def allowed(cell: str) -> set[str]:
    """Returns the folders that a cell names: of `ottla` all, but for those that it excepts."""
    named, _, excepted = cell.partition(" but for ")
    found = set(NAME.findall(named))
    if "all" in named.split():
        return {*FOLDERS, *TREES, "ottla"}
    return found - {"ottla"} | ({"ottla", *FOLDERS} if "ottla" in found else set()) - set(NAME.findall(excepted))


@pytest.mark.parametrize("name", [*FOLDERS, *TREES, "ottla"])
def test_a_folder_imports_what_the_table_says(name: str) -> None:
    cell, _, of_a_room = may_import()[name].partition("; its room ")
    room = of_a_room.partition("/")[0].strip("`")
    in_room = set(imported(name, room)) if room else set()
    elsewhere = set(imported(name)) - in_room
    too_much = [each for each in elsewhere if each[0] not in allowed(cell)]
    too_much += [each for each in in_room if each[0] not in allowed(cell) | allowed(of_a_room)]
    assert not too_much, f"ARCHITECTURE.md does not say that {name}/ may import these: {sorted(too_much)}"
    if "`ottla`" not in cell and cell != "all":
        assert not (unused := allowed(cell) - {each[0] for each in elsewhere | in_room}), f"{name}/ imports nothing of {unused}"
        assert not (unused := allowed(of_a_room) - {each[0] for each in in_room}), f"{name}/{room}/ imports nothing of {unused}"


def test_the_table_of_folders_has_all() -> None:
    assert may_import().keys() == {*FOLDERS, *TREES, "ottla", "docs/`, `dashboards"}


def test_asyncio_is_only_where_the_table_says() -> None:
    text = rows("| folder | holds | may import |")["`server/`"][0]
    assert "with `console/` and `ottla/testing.py` the only asyncio" in text
    using = re.compile(r"^\s*(import asyncio|from asyncio)\b", re.MULTILINE)
    found = {name for name, path in modules(trees=()).items() if using.search(path.read_text())}
    assert {folder(name) if folder(name) != "ottla" else name for name in found} == {"server", "console", "ottla.testing"}


def test_the_table_of_the_servers_rooms_is_in_their_order() -> None:
    named = [name for cell in rows("| room | what it is |") for name in FIRST_CELL.findall(cell)]
    assert named == [name.removeprefix("server/") for name in room_order() if name.startswith("server/")]


def test_the_table_of_the_log_has_every_room_and_module_in_their_order() -> None:
    named = [name for cell in rows("| room or modules | what it is |") for name in FIRST_CELL.findall(cell)]
    there = {f"{path.parent.name}/" for path in (ROOT / "log").glob("*/__init__.py")}
    there |= {path.name for path in (ROOT / "log").glob("*.py") if path.name != "__init__.py"}
    assert sorted(named) == sorted(there)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["ottla.log"])
    height = {name: number for number, layer in enumerate(layers) for name in layer.split(" | ")}
    places = [height[name.removesuffix(".py").rstrip("/")] for name in named]
    assert places == sorted(places)
