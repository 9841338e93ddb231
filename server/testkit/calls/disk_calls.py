"""The calls about the disk, for the table in control.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit


def break_disk(kit: Kit, given: Given) -> dict[str, Any]:
    """Has the disk fail or be slow, as the body says; answers with what was installed."""
    return kit.lives.disk_faults.install({} if given.body is None else given.body).describe()


def describe_disk(kit: Kit, given: Given) -> list[dict[str, Any]]:
    """Answers with everything that is wrong with the disk."""
    given.fields.done()
    return [fault.describe() for fault in kit.lives.disk_faults.all]


def clear_disk(kit: Kit, given: Given) -> list[dict[str, Any]]:
    """Makes the disk whole again; answers with what was wrong with it."""
    given.fields.done()
    return [fault.describe() for fault in kit.lives.disk_faults.clear()]


def remove_disk_fault(kit: Kit, given: Given) -> dict[str, Any]:
    """Removes one fault of the disk; answers with it as it was."""
    given.fields.done()
    return kit.lives.disk_faults.remove(given.variables["id"]).describe()
