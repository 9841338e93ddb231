"""Bytes as JSON has them: as text, or where they are none, as `{"base64": "..."}`."""

from __future__ import annotations

from base64 import b64encode

Text = str | dict[str, str] | None


def base64_of(data: bytes) -> str:
    """Returns bytes in base64."""
    return b64encode(data).decode()


def text_of(data: bytes | None) -> Text:
    """Returns bytes as an answer has them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64_of(data)}
