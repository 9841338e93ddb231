"""Rules that a machine can keep for us: sizes that may only shrink, symlinks that hold the package together, no stray hosts.

A function has at most 60 lines of code and a handwritten file at most 400. Docstrings, comments and blank lines do not count: a
file at the limit asks whether it holds one concept or two, and is no reason to say less. What is longer stands in the ratchet
below with the length it has; it may get shorter, never longer, and an entry that is no longer needed must go.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import itertools
import re
import subprocess
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from scripts.import_graph import graph, reachable
from tests.covered_by import COVERED_BY

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("wire", "log", "security", "server", "pipeline", "commands", "console")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400

RATCHET: dict[str, int] = {}
"""The lines of code that are allowed, by path, or by path::function."""


def source_files() -> list[Path]:
    """The Python files that git tracks, and those that `git add` would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def is_generated(text: str) -> bool:
    return "generated" in text.partition("\n")[0].lower()


def lines_of_code(text: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines that hold code. A string that stands alone documents what is above it, so it is no code."""
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = enumerate((line.strip() for line in text.splitlines()), 1)
    return {number for number, line in numbered if line and not line.startswith("#") and number not in prose}


def sizes(name: str, text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, lines of code, limit) of a file and of every function in it."""
    tree = ast.parse(text)
    code = lines_of_code(text, tree)
    yield name, len(code), MAX_FILE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            within = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            yield f"{name}::{node.name}", len(code.intersection(within)), MAX_FUNCTION_LINES


@functools.cache
def measured() -> list[tuple[str, int, int]]:
    """The sizes of all handwritten files."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in source_files()}
    return [size for name, text in texts.items() if not is_generated(text) for size in sizes(name, text)]


def test_code_is_counted_and_words_are_not() -> None:
    text = """'''A module's story,
in two lines.'''

LIMIT = 3
'''What it limits.'''


def answer(
    first,  # a comment beside code
):
    '''A docstring,

    in three lines.'''
    # a comment

    return f(
        "a string that is a value",
    )
"""
    assert list(sizes("a.py", text)) == [("a.py", 7, MAX_FILE_LINES), ("a.py::answer", 6, MAX_FUNCTION_LINES)]


def test_sizes_only_shrink() -> None:
    too_long = {name: lines for name, lines, limit in measured() if lines > RATCHET.get(name, limit)}
    assert not too_long, f"too long (functions {MAX_FUNCTION_LINES}, files {MAX_FILE_LINES} lines of code): {too_long}"


def test_ratchet_holds_no_stale_entry() -> None:
    limits = {name: (lines, limit) for name, lines, limit in measured() if name in RATCHET}
    stale = [name for name in RATCHET if name not in limits or limits[name][0] <= limits[name][1]]
    assert not stale, f"no longer too long, take them out: {stale}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_package_reaches_its_folders_by_relative_symlinks(folder: str) -> None:
    link = ROOT / "ottla" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder


def test_every_module_has_a_docstring() -> None:
    silent = []
    for path in source_files():
        lines = path.read_text().splitlines()
        code = (line for line in lines if line and not line.startswith("#"))
        if path.name != "__init__.py" and not next(code, "").startswith(('"""', 'r"""')):
            silent.append(path.relative_to(ROOT).as_posix())
    assert not silent, f"no module docstring: {silent}"


def handwritten_modules() -> list[str]:
    """The modules of ours that hold code, by path from the root."""
    paths = [path.relative_to(ROOT) for path in source_files()]
    ours = [path for path in paths if path.parts[0] in FOLDERS and path.name != "__init__.py"]
    return [path.as_posix() for path in ours if not is_generated((ROOT / path).read_text())]


def test_no_module_of_the_product_is_named_like_a_test() -> None:
    assert not [module for module in handwritten_modules() if Path(module).name.startswith("test_")]


def own_tests(module: str, modules: Collection[str]) -> list[str]:
    """The names in the mirror's place of `test_<name>.py` and of `test_<name>_<part>.py`, unless that is another module's."""
    path = Path(module)
    beside = {Path(other).stem for other in modules if Path(other).parent == path.parent}

    def owner(test: str) -> str:
        return max((stem for stem in beside if f"{test}_".startswith(f"test_{stem}_")), key=len, default="")

    there = sorted(test.stem for test in (ROOT / "tests" / path.parent).glob("test_*.py"))
    return [test for test in there if owner(test) == path.stem]


def test_a_test_belongs_to_the_module_that_it_is_named_after() -> None:
    modules = ["server/metadata/snapshot.py", "server/metadata/snapshot_keeper.py", "log/compaction/cleaner.py", "log/cleaner.py"]
    assert own_tests(modules[0], modules) == []
    assert own_tests(modules[0], modules[:1]) == own_tests(modules[1], modules) == ["test_snapshot_keeper"]
    assert {"test_cleaner", "test_cleaner_model", "test_cleaner_manager"} <= set(own_tests(modules[2], modules))
    assert own_tests(modules[3], modules) == []


@functools.cache
def modules_without_tests() -> set[str]:
    modules = handwritten_modules()
    return {module for module in modules if not own_tests(module, modules)}


def test_every_module_has_a_test_or_is_named_with_the_one_that_covers_it() -> None:
    without = modules_without_tests()
    assert not (found := sorted(without - COVERED_BY.keys())), f"neither a test nor a line in covered_by.py: {found}"


def test_the_table_of_tests_is_true() -> None:
    without = modules_without_tests()
    assert not (found := sorted(COVERED_BY.keys() - without)), f"gone, or with a test of its own: {found}"
    assert not (found := sorted(test for test in COVERED_BY.values() if not (ROOT / test).exists())), f"no such test: {found}"


def test_a_test_that_covers_a_module_is_near_it() -> None:
    """It imports the module or what imports that, or it names what the module defines. Helpers of tests, and what the test is
    named after, count with its imports."""
    edges = graph()
    helpers = {name: [target for target in targets if not name.startswith("ottla.")] for name, targets in edges.items()}
    found = []
    for module, test in COVERED_BY.items():
        tests = {dotted(test), *reachable(helpers, dotted(test))}
        loaded = subjects(test).union(*(edges.get(name, ()) for name in tests))
        near = loaded.union(*(edges.get(name, ()) for name in loaded))
        names = public_names(module) & set(re.findall(r"\w+", (ROOT / test).read_text()))
        if f"ottla.{dotted(module)}" not in near and not names:
            found.append(f"{module} by {test}")
    assert not found, f"covered by a test that neither imports what is near it nor names anything of it: {found}"


def subjects(test: str) -> set[str]:
    """Returns the modules that a test is named after: those in the mirror's place, by the first words of their names or of the
    test's, or a whole folder."""
    folder, name = Path(*Path(test).parts[1:-1]), Path(test).stem.removeprefix("test_")
    beside = [*(ROOT / folder).glob("*.py"), *(ROOT / folder / name).glob("*.py")]
    found = [path for path in beside if name == path.parent.name or f"{path.stem}_".startswith(f"{name}_")]
    found += [path for path in beside if name.startswith(f"{path.stem}_")]
    return {f"ottla.{dotted(path.relative_to(ROOT).as_posix())}" for path in found}


def public_names(module: str) -> set[str]:
    """Returns the names that a module defines for others, methods included; a handler's is that of its API's module."""
    if module.startswith("server/handlers/"):
        return {Path(module).stem}
    tree = ast.parse((ROOT / module).read_text())
    defined = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return {node.name for node in defined if not node.name.startswith("_")}


def dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


RIDDLES = re.compile(r"\b(mended|told of|tells?|hears? of|of late|be had)\b|(^|\d) letters\b", re.IGNORECASE)
"""Turns of phrase that slow a reader down: fixed, reported, says, learns, recently and available say the same. A number of
letters, which may begin a part of an f-string, is one of characters: not all are letters."""
TOLD = (
    "a test tells it to", "unless you tell it otherwise", "a broker tells its controller that", "does not tell them apart",
    "tells members apart", "nobody can tell apart",
)  # fmt: skip
"""Phrases in which to tell is to order, to inform somebody who is named, or to distinguish."""
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
VERB = re.compile(r"[A-Z][a-z]*s\b|See [A-Z]")
"""The first word of a function's docstring: what the function does, or where that is said."""
NO_VERB = re.compile(r"(As|Its|This|Always|Bytes|Seconds|Others)\b")
"""First words of a docstring that end like a verb and are none."""
NOT_BY_A_VERB = re.compile(r"(\w+\.)?(command|callback|guarded|fixture|setter|property|cached_property)\b")
"""Decorators: a command's docstring is its help and speaks to the user; properties and fixtures may be named by a noun."""
CLAUSE = re.compile(r"(How|What|Whether|Where|When|Which|Who|Why)\b")
"""The first words of a docstring that is a clause without a main verb: whoever reads it has to guess what is said about that."""


def riddles(text: str) -> bool:
    """Returns whether a text has a turn of phrase that slows a reader down."""
    for phrase in TOLD:
        text = text.replace(phrase, "")
    return RIDDLES.search(text) is not None


def texts_for_users(source: str) -> Iterator[str]:
    """Yields the strings in a module that are no docstrings: messages, log lines, help texts."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def fragments(source: str) -> Iterator[str]:
    """Yields the docstrings of functions that do not begin with a verb. That of `__init__` may begin with a parameter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            by_noun = any(NOT_BY_A_VERB.match(ast.unparse(decorator)) for decorator in node.decorator_list)
            documentation = ast.get_docstring(node)
            if documentation and not by_noun and (NO_VERB.match(documentation) or not VERB.match(documentation)):
                yield f"{node.name}: {documentation.partition(chr(10))[0]}"


def attributes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields the names of variables, with what is said about each in the string below it."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for named, said in itertools.pairwise(body if isinstance(body, list) else ()):
            if isinstance(named, ast.Assign | ast.AnnAssign) and isinstance(said, ast.Expr):
                target = named.target if isinstance(named, ast.AnnAssign) else named.targets[0]
                if isinstance(said.value, ast.Constant) and isinstance(said.value.value, str):
                    yield ast.unparse(target), inspect.cleandoc(said.value.value)


def clauses(source: str) -> Iterator[str]:
    """Yields the docstrings, of whatever they document, that begin like a clause. What is no function may be named by a noun."""
    tree = ast.parse(source)
    nodes = (
        node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    named = ((getattr(node, "name", "module"), ast.get_docstring(node) or "") for node in nodes)
    for name, documentation in itertools.chain(attributes(tree), named):
        if CLAUSE.match(documentation):
            yield f"{name}: {documentation.partition(chr(10))[0]}"


def test_riddles_and_fragments_are_found() -> None:
    source = """'How files are.'
class Files:
    'Where files are.'
    @property
    def path(self):
        'What their path is.'


class File:
    'A file, and how it is.'
    def __init__(self, size):
        '`size` is in bytes.'
        self.size: int = size
        'How large it is.'


@in_turns
def mend(path):
    '''Whether it was mended.'''
    print(f"{path} was mended")


@client.command
def list_files():
    '''List files.'''


LIMIT = 3
'''The most files.'''


def repair(path):
    '''Repairs a file; whether it was mended is logged.'''
"""
    assert [text for text in texts_for_users(source) if riddles(text)] == [" was mended"]
    assert list(fragments(source)) == ["mend: Whether it was mended."]
    assert sorted(clauses(source)) == [
        "Files: Where files are.", "mend: Whether it was mended.", "module: How files are.", "path: What their path is.",
        "self.size: How large it is.",
    ]  # fmt: skip
    assert riddles("no cluster tells how a group reads")
    assert not riddles("two that nobody can tell apart are refused")
    assert riddles("the keys cannot be had")
    assert riddles("has to be 16 letters or more")
    assert [text for text in texts_for_users('f"at most {MOST} letters"') if riddles(text)] == [" letters"]
    assert not riddles("a dead letter topic keeps dead letters; names have letters and digits; in any case of letters")


def test_each_phrase_that_is_no_riddle_is_in_use() -> None:
    read = [(ROOT / name).read_text() for name in PAGES] + [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    read += [name for path in source_files() if path.parts[-1].startswith("test_") for name in names_of_tests(path.read_text())]
    text = "\n".join(read)
    assert not (found := [phrase for phrase in TOLD if phrase not in text]), f"no longer written, take it out: {found}"


def test_what_users_read_is_plain_english() -> None:
    pages = [*(ROOT / name for name in PAGES), *(ROOT / "docs").glob("*.md")]
    found = [f"{page.name}: {line}" for page in pages for line in page.read_text().splitlines() if riddles(line)]
    for module in handwritten_modules():
        found += [f"{module}: {text}" for text in texts_for_users((ROOT / module).read_text()) if riddles(text)]
    assert not found


def names_of_tests(source: str) -> Iterator[str]:
    """Yields the names of a module's tests as they are read, with spaces."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " ")


def test_names_of_tests_are_plain_english() -> None:
    assert [name for name in names_of_tests("def test_a_file_was_mended(): ...") if riddles(name)]
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in source_files()
        if path.relative_to(ROOT).parts[0] in ("tests", "compat_tests")
        for name in names_of_tests(path.read_text())
        if riddles(name)
    ]
    assert not found


def test_docstrings_of_functions_are_sentences() -> None:
    scripts = [path.relative_to(ROOT).as_posix() for path in source_files() if path.is_relative_to(ROOT / "scripts")]
    found = [f"{name}: {line}" for name in handwritten_modules() + scripts for line in fragments((ROOT / name).read_text())]
    assert not found, f"say what the function does, beginning with a verb: {found}"


def test_docstrings_are_no_clauses() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in source_files()}
    found = [f"{name}: {line}" for name, text in texts.items() if not is_generated(text) for line in clauses(text)]
    assert not found, f"a sentence, or for what is no function a noun, but no clause: {found}"


IGNORED = re.compile(r"#\s*type:\s*ignore\b(?:\[[^\]]*\])?(?P<reason>\s*#\s*(?!noqa|fmt:)\S.*)?$")


def unreasoned(source: str) -> Iterator[str]:
    """Yields the lines that silence the type checker without saying why in a second comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (found := IGNORED.search(token.string)) and not found["reason"]:
            yield f"{token.start[0]}: {token.string}"


def test_who_silences_the_type_checker_says_why() -> None:
    sample = "a = f(1)  # type: ignore[arg-type]\nb = f(1)  # type: ignore[arg-type]  # it takes any\nc = f(1)  # type: ignore\n"
    assert list(unreasoned(sample)) == ["1: # type: ignore[arg-type]", "3: # type: ignore"]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in source_files()}
    found = [
        f"{name}:{line}"
        for name, text in texts.items()
        if "type: ignore" in text and not is_generated(text)
        for line in unreasoned(text)
    ]
    assert not found, f"better types, or a reason behind it: {found}"
