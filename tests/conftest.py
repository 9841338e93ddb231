"""The demands of a test run on its process."""

from __future__ import annotations

import pytest

from compat_tests.before_tests import let_ctrl_c_through, why_not_to_test


def pytest_configure() -> None:
    if why_not := why_not_to_test():
        raise pytest.UsageError(why_not)
    let_ctrl_c_through()
