"""The calls about the versions that a broker pretends to serve, for the table in control.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit


def pretend(kit: Kit, given: Given) -> dict[str, Any]:
    """Has the broker pretend to serve what the body says, in place of what it pretended before; answers with all versions."""
    from ottla.server.testkit.versions.versions import Versions  # few tests need the table of releases

    versions = Versions(given.fields.all())
    kit.pretend(versions)
    return versions.describe()


def describe_versions(kit: Kit, given: Given) -> dict[str, Any]:
    """Answers with the versions that clients are told."""
    from ottla.server.testkit.versions.versions import Versions

    given.fields.done()
    return (kit.versions or Versions({})).describe()


def be_itself(kit: Kit, given: Given) -> dict[str, Any]:
    """Has the broker serve its own versions again, and answers with these."""
    kit.pretend(None)
    return describe_versions(kit, given)
