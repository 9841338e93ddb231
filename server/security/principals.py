"""Principals: who a client is to the broker, as a text of kind and name."""

from __future__ import annotations

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of every client that has not proven who it is: all of them, on a listener without authentication."""
