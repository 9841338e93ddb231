"""Every page that needs no name of anything is found by following links from the first one."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from ottla.console.pages import PAGES, WITHOUT_CLUSTER
from tests.console.browser import Browser

ELSEWHERE: Final = {
    "/inside": "in the console of a broker",
    "/requests": "in the console of a broker",
    "/group/why": "of a group; of one that is not there, that is the reason",
    "/access/tokens/new": "where there are tokens",
    "/broker/reassignments/new": "where there are several brokers",
}
"""Pages to which links lead only there."""


def test_every_page_is_linked(guarded_browser: Browser) -> None:
    seen: set[str] = set()
    left = ["/"]
    while left:
        path = left.pop()
        seen.add(path)
        answer = guarded_browser.get(path)
        if answer.status == 200:
            links = {urlsplit(link).path for link in re.findall(r'href="(/[^"]*)"', answer.text)}
            left += [link for link in links if link in PAGES and link not in seen and link not in left]
    alone = {path for path in PAGES if "{" not in path and path not in WITHOUT_CLUSTER}
    shown = {path for path in alone if guarded_browser.get(path).status == 200}
    assert len(shown) > 15
    assert shown - seen - ELSEWHERE.keys() == set()
