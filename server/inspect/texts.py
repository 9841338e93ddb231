"""Bytes as JSON has them: as text, or where they are none, as `{"base64": "..."}`."""

from __future__ import annotations

import base64

Text = str | dict[str, str] | None


def text_of(data: bytes | None) -> Text:
    """Returns bytes as an answer has them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
