"""A page that is open in Chromium, looked at by axe in both schemes, and as narrow as a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES: Final = Path(__file__).resolve().parents[2] / "build" / "console"
_AXE: Final = Axe().axe_script
_FEWER_ROWS: Final = """() => {
  const shape = (element) => element.tagName + "." + element.className + "(" + [...element.children].map(shape) + ")";
  for (const body of document.querySelectorAll("tbody")) {
    const seen = new Map();
    for (const row of [...body.rows]) {
      const number = (seen.get(shape(row)) || 0) + 1;
      seen.set(shape(row), number);
      if (number > 5) row.remove();
    }
  }
}"""
"""Leaves five rows of each shape in every table: of three hundred settings axe would measure each one's contrast, for seconds."""


@contextmanager
def pictured(page: Page, name: str) -> Iterator[None]:
    """Leaves a picture of the page if the block fails."""
    try:
        yield
    except BaseException:
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")
        raise


def check(page: Page, path: str) -> None:
    """Checks the page that is open. It is narrow with all its rows; then axe sees some of each kind."""
    with pictured(page, "narrow"):
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        page.set_viewport_size({"width": 1200, "height": 800})
    page.evaluate(_FEWER_ROWS)
    with pictured(page, "axe-light"):
        page.emulate_media(color_scheme="light")
        assert violations(page, []) == [], path
        assert page.locator("h1").count() == 1
    with pictured(page, "axe-dark"):
        page.emulate_media(color_scheme="dark")
        assert violations(page, ["color-contrast"]) == [], path  # the rest is the same


def violations(page: Page, rules: list[str]) -> list[tuple[str, list[str]]]:
    """Returns which of these rules of axe the page breaks, all if none is named, each with the first elements that do."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate("async options => (await axe.run(document, options)).violations", options)
    return [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]
