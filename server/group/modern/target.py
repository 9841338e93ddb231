"""Compares an assignor's answer with the previous target, so that only members whose assignment changes get new records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment, GroupAssignment


def changed_targets(
    former: Mapping[str, Assignment], assigned: GroupAssignment, member_ids: Iterable[str]
) -> dict[str, Assignment]:
    """Returns the new targets of the members whose target differs from the former one, or who had none, in the order of
    `member_ids`.

    Members that the assignor left out get an empty target.
    """
    targets = ((member_id, assigned.get(member_id, NOTHING_ASSIGNED)) for member_id in member_ids)
    return {member_id: target for member_id, target in targets if former.get(member_id) != target}
