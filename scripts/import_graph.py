"""The graph of which module of ours imports which, in the product and in tests/, compat_tests/ and scripts/: every import counts,
also one inside a function and one for the type checker only.

An import that runs late, or never, binds two modules no less than one at the top of the file: neither can be read without the
other. An import whose name is computed, such as that of a handler, counts for every module that it may mean (`COMPUTED`).
`tests/test_imports.py` counts circles on this graph, of modules and of packages, and `scripts/architecture_picture.py` draws the
part of it that is the product.

    python -m scripts.import_graph        the circles, with the line of each import in them
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("wire", "log", "security", "server", "pipeline", "commands", "console")
"""Folders at the top of the tree, reached as packages of `ottla` by symlinks."""
TREES = ("tests", "scripts", "compat_tests")
"""Folders beside the product, which are packages by themselves."""
ROOMS_CONTRACT = "the rooms in order"
"""The name of the contract in pyproject.toml whose layers are the order of the rooms."""

COMPUTED: Final[Mapping[tuple[str, str], str]] = {
    ("ottla.commands.log.dump.schemas", "f'ottla.wire.messages.internal.{name}'"): "ottla.wire.messages.internal.*",
    ("ottla.commands.testkit.replay", "f'ottla.wire.messages.{api.module}'"): "ottla.wire.messages.*",
    ("ottla.server.dispatch.routes", "f'ottla.server.handlers.{api.module}'"): "ottla.server.handlers.*",
    ("ottla.server.dispatch.routes", "f'ottla.wire.messages.{api.module}'"): "ottla.wire.messages.*",
    ("ottla.server.guards.link", "f'ottla.server.guards.{place}'"): "ottla.server.guards.*",
    ("ottla.server.guards.whole", "f'ottla.wire.messages.{module}'"): "ottla.wire.messages.*",
    ("ottla.server.group.records", "f'{name}_key'"): "ottla.wire.messages.internal.*_key",
    ("ottla.server.group.records", "f'{name}_value'"): "ottla.wire.messages.internal.*_value",
    ("ottla.server.group.shard", "PROTOCOLS[kind]"): "ottla.server.group.*.protocol",
    ("ottla.server.testkit.refusals.entities", "f'ottla.wire.messages.{api.module}'"): "ottla.wire.messages.*",
    ("ottla.wire.metadata_records", "f'ottla.wire.messages.internal.{name}'"): "ottla.wire.messages.internal.*",
}
"""The imports whose names are computed, as (module, the argument in its source), each with a pattern of what they may mean."""

Graph = Mapping[str, Mapping[str, int]]
"""Module -> the modules that it imports, each with the line of the import."""


def modules(root: Path = ROOT, trees: Iterable[str] = TREES) -> dict[str, Path]:
    """Returns the path of each module of the product and of the trees beside it, by its dotted name. A package is named without
    `__init__`."""
    paths: list[tuple[Path, tuple[str, ...]]] = [
        (path, ("ottla",)) for folder in FOLDERS for path in (root / folder).rglob("*.py")
    ]
    paths += [(path, ()) for path in (root / "ottla").glob("*.py")]
    paths += [(path, ()) for tree in trees for path in (root / tree).rglob("*.py")]
    named = {}
    for path, above in paths:
        parts = (*above, *path.relative_to(root).with_suffix("").parts)
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return dict(sorted(named.items()))


@functools.cache
def _import_nodes(text: str) -> tuple[ast.AST, ...]:
    """Returns the import statements in a source text, and the calls, of which some import. A graph takes most of its time for
    parsing."""
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


def _named(node: ast.AST) -> Iterator[str]:
    """Yields what an import statement may mean, the longest name first: `from a import b` means the module a.b or a name in a."""
    match node:
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                yield f"{module}.{alias.name}"
        case ast.Import(names=names):
            for alias in names:
                yield alias.name
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name


def computed_imports(text: str) -> dict[str, int]:
    """Returns the computed names that a source text imports, in its own words, each with the line of its first import."""
    found: dict[str, int] = {}
    for node in _import_nodes(text):
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"), args=[argument, *_]
            ) if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                found.setdefault(ast.unparse(argument), node.lineno)
    return found


def imports(text: str, known: Iterable[str]) -> dict[str, int]:
    """Returns the known modules that a source text imports, each with the line of its first import."""
    found: dict[str, int] = {}
    for node in _import_nodes(text):
        for name in _named(node):
            target = name if name in known else name.rpartition(".")[0]
            if target in known:
                found.setdefault(target, getattr(node, "lineno", 0))
    return found


def graph(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Returns every module of ours with what it imports, except the generated codecs, which import nothing but `wire.primitives`.

    What COMPUTED does not name of the product's computed imports is missing here. One of a tree beside the product counts for
    every module of ours that fits, if it is an f-string.
    """
    known = {name: path for name, path in modules(root).items() if not name.startswith("ottla.wire.messages.")}
    found = {name: imports(path.read_text(), known) for name, path in known.items()}
    for name, path in known.items():
        for words, line in computed_imports(path.read_text()).items():
            pattern = COMPUTED.get((name, words), "") if name.startswith("ottla") else _pattern(words)
            found[name] |= {target: line for target in known if fnmatchcase(target, pattern) and target not in found[name]}
    return {name: {target: line for target, line in targets.items() if target != name} for name, targets in found.items()}


def _pattern(words: str) -> str:
    """Returns what modules of ours an f-string may mean, as a pattern; nothing fits it if it may mean any others."""
    pattern = re.sub(r"\{.*?\}", "*", words).removeprefix("f").strip("'")
    return pattern if pattern.startswith("ottla.") else ""


def reachable(edges: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Returns all that can be reached from start by one arrow or more; start itself where it is on a circle."""
    seen: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(edges.get(name, ()))
    return seen


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the sets of two or more names that all reach each other, each sorted: the knots in the graph."""
    left = dict(edges)
    while ends := [name for name, targets in left.items() if not any(target in left for target in targets)]:
        for name in ends:
            del left[name]
    reaches = {name: reachable(left, name) for name in left}
    knots = {tuple(sorted(other for other in reaches[name] if name in reaches.get(other, ()))) for name in left}
    return [list(knot) for knot in sorted(knots) if len(knot) > 1]


def in_packages(edges: Mapping[str, Iterable[str]]) -> dict[str, dict[str, dict[str, list[tuple[str, str]]]]]:
    """Returns the arrows between what stands side by side in a package, modules and packages alike: for each package, of which
    the uppermost is "", each child with the children that it imports, and the pairs of modules that make the arrow.

    An import of a package that one stands in, for its `__init__`, is no arrow.
    """
    found: dict[str, dict[str, dict[str, list[tuple[str, str]]]]] = {}
    for module, targets in edges.items():
        for target in targets:
            source, end = module.split("."), target.split(".")
            apart = next((at for at, pair in enumerate(zip(source, end, strict=False)) if pair[0] != pair[1]), None)
            if apart is not None:
                child, other = ".".join(source[: apart + 1]), ".".join(end[: apart + 1])
                arrows = found.setdefault(".".join(source[:apart]), {})
                arrows.setdefault(child, {}).setdefault(other, []).append((module, target))
    return found


def package_circles(edges: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """Returns each set of two or more modules and packages that stand side by side and all reach each other, with the imports
    between them."""
    return {
        tuple(knot): [pair for child in knot for other in knot for pair in arrows.get(child, {}).get(other, [])]
        for arrows in in_packages(edges).values()
        for knot in circles(arrows)
    }


def room(module: str) -> str:
    """Returns the room that a module stands in: `server/<folder>`, or the folder at the top of the tree. The package `ottla`
    itself, which has the version, is in none: ""."""
    top, *parts = module.split(".")
    if top != "ottla":
        return top
    if not parts or parts[0] not in FOLDERS:
        return "ottla" if parts else ""
    return "/".join(parts[:2]) if parts[0] == "server" and len(parts) > 1 else parts[0]


def room_arrows(edges: Graph) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Returns for each room the rooms that it imports, each with the pairs of modules that make the arrow."""
    arrows: dict[str, dict[str, list[tuple[str, str]]]] = {room(module): {} for module in edges}
    for module, targets in edges.items():
        for target in targets:
            if room(target) not in ("", room(module)):
                arrows[room(module)].setdefault(room(target), []).append((module, target))
    return arrows


def _contract(root: Path) -> dict[str, list[str]]:
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract: dict[str, list[str]] = next(one for one in contracts if one["name"] == ROOMS_CONTRACT)
    return contract


def room_order(root: Path = ROOT) -> list[str]:
    """Returns the rooms from the top down, as the import contract in pyproject.toml lists them."""
    return list(dict.fromkeys(room(layer) for layer in _contract(root)["layers"]))


def arrows_up(edges: Graph, order: list[str]) -> list[tuple[str, str]]:
    """Returns the imports, by module, that lead from a room to one that the order puts above it."""
    place = {name: number for number, name in enumerate(order)}
    return sorted(
        pair
        for source, targets in room_arrows(edges).items()
        for target, pairs in targets.items()
        if source in place and target in place and place[target] < place[source]
        for pair in pairs
    )


def main() -> int:
    edges = graph()
    knots = package_circles(edges)
    for knot, pairs in knots.items():
        print(f"{', '.join(knot)} stand on a circle:")
        for module, target in pairs:
            print(f"    {module}:{edges[module][target]} imports {target}")
    up = arrows_up(edges, room_order())
    for module, target in up:
        print(f"up: {module}:{edges[module][target]} imports {target}")
    print(f"{len(edges)} modules, {len(knots)} circles, {len(up)} imports of a room above")
    return 1 if knots or up else 0


if __name__ == "__main__":
    sys.exit(main())
