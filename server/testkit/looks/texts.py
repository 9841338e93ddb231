"""Reads bytes that a test sent: a text, or where they are none, `{"base64": "..."}` (server/inspect/texts.py writes them)."""

from __future__ import annotations

import base64
from typing import Any

from ottla.server.testkit.fields import Refused


def bytes_of(text: Any, where: str) -> bytes | None:
    """Returns the bytes that a test sent; bytes may be sent from Python. Raises Refused, which names the field `where`."""
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise Refused(f"{where} has half of a surrogate pair, which no bytes stand for") from None
    if isinstance(text, dict) and text.keys() == {"base64"} and isinstance(text["base64"], str):
        try:
            return base64.b64decode(text["base64"], validate=True)
        except ValueError as error:  # also of characters that are not ASCII
            raise Refused(f"{where}.base64: {error}") from None
    raise Refused(f'{where} must be a text, {{"base64": "..."}} or null, not {text!r:.50}')
