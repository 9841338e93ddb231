"""Raised by the sources, shown by the application as a page with status 404."""

from __future__ import annotations


class Missing(Exception):
    """Raised for a topic, a group, a broker or a record that is not there; its text says which."""
