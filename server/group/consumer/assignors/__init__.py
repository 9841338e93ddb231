"""This package has the assignors of consumer groups, by the names that `group.consumer.assignors` and members use."""

from __future__ import annotations

from typing import Final

from ottla.server.group.consumer.assignors import range_assignor, uniform
from ottla.server.group.modern.assignor import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}
