"""The way out of damage, as an operator can paste it into a shell."""

from __future__ import annotations

from ottla.server.base.damage import way_out


def test_the_command_is_one_that_a_shell_takes() -> None:
    text = "Restore it from a copy. To do without what is damaged, run, while no broker does: ottla log repair --skip "
    assert way_out("/data/t-0") == text + "/data/t-0"
    assert way_out("/my data/t-0") == text + "'/my data/t-0'"
