"""How a page says that something is not there: whatever it asks raises Missing, which the application shows with status 404."""

from __future__ import annotations


class Missing(Exception):
    """Raised for a topic, a group, a broker or a record that is not there; its text says which."""
