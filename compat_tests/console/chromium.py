"""Chromium without a screen: Debian's, or the one that OTTLA_CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs Chromium for the block."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("OTTLA_CHROMIUM") or shutil.which("chromium")
    assert path, "there is no chromium; on Debian: apt-get install chromium"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium demands of root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield browser
        browser.close()
