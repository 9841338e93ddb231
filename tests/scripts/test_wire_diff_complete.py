"""Tests of what a comparison with Kafka is said to lack: cases that nobody compared, excuses that do not hold, tests that did not
pass."""

from __future__ import annotations

import pytest

from compat_tests.seen import ERROR, SUCCESS, Case
from compat_tests.wire_diff import edge_cases
from compat_tests.wire_diff.edge_cases import NO_ERROR, NO_SUCCESS, all_served, excused, rows
from ottla.server.handlers import BROKER
from ottla.wire.api import APIS, Api
from scripts.wire_diff_complete import missing, not_passed

VOTE = APIS[52]


def complete() -> set[Case]:
    """Returns what has to be compared, and no more."""
    excuses = {SUCCESS: set(excused(NO_SUCCESS)), ERROR: set(excused(NO_ERROR))}
    return {
        Case(api.key, version, outcome)
        for api in all_served().values()
        for version in range(api.min_version, api.max_version + 1)
        for outcome, excuse in excuses.items()
        if (api.module, version) not in excuse
    }


def test_all_that_there_is() -> None:
    assert missing(complete()) == []


def test_what_nobody_compared_and_what_is_excused_in_vain() -> None:
    seen = complete() - {Case(3, 12, ERROR)} | {Case(2, 0, ERROR), Case(22, 0, SUCCESS), Case(16, 5, ERROR)}
    assert missing(seen) == ["Metadata v12 (key 3): no error", "ListGroups v5 (key 16): an excused error"]


def test_apis_of_the_controllers_listener_alone_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def served(role: str) -> dict[int, Api]:
        return {} if role == BROKER else {VOTE.key: VOTE}

    monkeypatch.setattr(edge_cases, "served", served)
    assert missing(set()) == [
        f"Vote v{version} (key 52): no {outcome}"
        for version in range(VOTE.min_version, VOTE.max_version + 1)
        for outcome in (SUCCESS, ERROR)
    ]


def test_tests_of_rows_that_did_not_pass() -> None:
    tests = {f"compat_tests/{test}[ottla-3]" for found in rows().values() for test in found}
    assert not_passed(tests) == []
    assert not_passed(tests - {"compat_tests/wire_diff/test_framing.py::test_client_software_name[ottla-3]"}) == [
        "row AVname: wire_diff/test_framing.py::test_client_software_name"
    ]
