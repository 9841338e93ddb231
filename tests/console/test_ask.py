"""Numbers, links and pages of lists."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.console.ask import Ask, paged, whole
from ottla.console.errors import BadInput

NO_SOURCE: Any = None


def ask(**query: str) -> Ask:
    return Ask(NO_SOURCE, "/topics", query=query)


@pytest.mark.parametrize("text", ["x", "1.5", "0", "6", "-1", "1e1", "١", "9" * 5000, "+1", "1 2"])
def test_what_is_no_number_in_range_names_the_field(text: str) -> None:
    with pytest.raises(BadInput, match=r"^page has to be a whole number from 1 to 5$"):
        whole(text, "page", 1, 1, 5)
    assert whole(" 5 ", "page", 1, 1, 5) == 5
    assert whole("", "page", 3, 1, 5) == 3


def test_a_link_keeps_the_other_parameters() -> None:
    assert ask(q='a&b="<', page="2").link(page=3, sort=None) == "?q=a%26b%3D%22%3C&page=3"
    assert ask(q="a", page="2").link(page=None) == "?q=a"


def test_a_list_is_shown_in_pages() -> None:
    first, last = paged(ask(q="x"), range(5), 2), paged(ask(page="9"), range(5), 2)
    assert (list(first.shown), first.first, first.total, first.before, first.after) == ([0, 1], 1, 5, None, "?q=x&page=2")
    assert (list(last.shown), last.first, last.before, last.after) == ([4], 5, "?page=2", None)
    nothing = paged(ask(), [], 2)
    assert (list(nothing.shown), nothing.total, nothing.before, nothing.after) == ([], 0, None, None)
