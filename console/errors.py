"""Errors by which a page says that something is not there, or not meant: what it calls raises one of these, and the application
shows it."""

from __future__ import annotations


class Missing(Exception):
    """Raised for a topic, a group, a broker or a record that is not there (status 404); its text says which."""


class BadInput(Exception):
    """Raised for what cannot be meant; its text is for the user, and names the field. `field` is the one beside which a form
    shows it."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field
