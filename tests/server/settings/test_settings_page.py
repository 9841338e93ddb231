"""docs/settings.md says what the tables say, and a setting without effect says why."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import Setting
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from scripts.settings_page import PAGE, WHY_IDLE, fits, page, why_idle

TABLES: tuple[Mapping[str, Setting], ...] = (
    TOPIC_SETTINGS,
    BROKER_SETTINGS,
    OWN_SETTINGS,
    GROUP_SETTINGS,
    CLIENT_METRICS_SETTINGS,
)
SHOWN = [setting for table in TABLES for setting in table.values() if not setting.internal]


def test_the_page_is_that_of_the_tables() -> None:
    assert PAGE.read_text() == page(), "the tables have changed: run python -m scripts.settings_page"


def test_every_setting_stands_where_it_belongs() -> None:
    effective, _, idle = page().partition("## Known, and without effect yet")
    rows = re.findall(r"^\| `([^`]+)` ", effective, re.MULTILINE)
    listed = [name for line in idle.splitlines() if line.startswith("- ") for name in re.findall(r"`([^`]+)`", line)]
    assert sorted(rows) == sorted(setting.name for setting in SHOWN if setting.effective)
    assert sorted(listed) == sorted(setting.name for setting in SHOWN if not setting.effective)


def test_every_reason_has_settings() -> None:
    idle = [setting.name for setting in SHOWN if not setting.effective]
    unused = [word for words in WHY_IDLE.values() for word in words if not any(fits(word, name) for name in idle)]
    assert not unused


def test_the_longest_words_decide() -> None:
    assert why_idle("metadata.log.segment.ms").startswith("The metadata log")
    assert why_idle("num.replica.fetchers") != why_idle("num.io.threads")
    with pytest.raises(LookupError, match=r"no\.such has no effect"):
        why_idle("no.such")
