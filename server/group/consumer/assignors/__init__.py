"""The assignors of consumer groups, by the name that group.consumer.assignors and members know them by."""

from __future__ import annotations

from typing import Final

from ottla.server.group.consumer.assignors import range_assignor, uniform
from ottla.server.group.modern.assignor import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}
