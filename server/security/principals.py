"""Principals: the identities of clients, as texts of kind and name."""

from __future__ import annotations

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of every client that is not authenticated: of all clients, on a listener without authentication."""
