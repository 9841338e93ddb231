"""The pages for readers (*.md) point only to what exists: links to files and headings, and paths of the tree in backticks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FOLDERS = "wire|log|server|commands|console|pipeline|tests|compat_tests|scripts|docs|dashboards|ottla"
PATH = re.compile(rf"`(?:python |bash |\./)?((?:{FOLDERS})/[\w./-]*\w)[/`]")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: ids, and headings in the form that GitHub gives them."""
    text = page.read_text()
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    wrong = []
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    """The changelog is left out, since it also describes what has been moved since."""
    named = {path for path in PATH.findall(page.read_text()) if "<" not in path}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_nobody_is_told_to_install_a_package_that_no_index_has() -> None:
    """There is none yet: ottla is installed from a checkout, `pip install .`."""
    sources = [
        path
        for folder in ("commands", "console", "pipeline", "server", "security", "log", "wire")
        for path in (ROOT / folder).rglob("*.py")
    ]
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]
    texts = [*pages, *(ROOT / "ottla").glob("*.py"), *(path for path in sources if "messages" not in path.parts)]
    assert [str(path) for path in texts if re.search(r"pip install ['\"]?ottla", path.read_text())] == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n[ok](#a-b-c) [ok](page.md) [bad](none.md) [bad](#d) [ok](https://example.com/x)\n")
    assert broken_links(page) == ["none.md", "#d"]


def test_paths_are_found() -> None:
    named = PATH.findall((ROOT / "README.md").read_text())
    assert {"scripts/bench", "docs/commands.md"} & set(named), named
