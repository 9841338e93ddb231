"""Delegation tokens, without their secrets."""

from __future__ import annotations

from typing import Final

from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.subjects import access
from ottla.console.subjects.absent import or_why

SIZE: Final = 200


def tokens(ask: Ask) -> Answer:
    """Shows those that this client may see."""
    found, why = or_why(lambda: access.tokens(ask.source))
    return Page("tokens.html", {"page": paged(ask, found or [], SIZE), "why": why})
