"""docs/settings.md says what the tables say, and a setting without effect says why."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigType, Setting
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from scripts import limits_page
from scripts.settings_page import WHY_IDLE, fits, page, pages, why_idle
from scripts.written_pages import outdated

TABLES: tuple[Mapping[str, Setting], ...] = (
    TOPIC_SETTINGS,
    BROKER_SETTINGS,
    OWN_SETTINGS,
    GROUP_SETTINGS,
    CLIENT_METRICS_SETTINGS,
)
SHOWN = [setting for table in TABLES for setting in table.values() if not setting.internal]


def test_the_pages_are_those_of_the_tables() -> None:
    assert outdated(pages()) == [], "the tables have changed: run python -m scripts.settings_page"


def test_every_setting_of_our_own_that_bounds_something_is_among_the_limits() -> None:
    text = limits_page.page()
    assert [name for name in OWN_SETTINGS.keys() - limits_page.NO_LIMITS if f"| `{name}` |" not in text] == []
    assert OWN_SETTINGS.keys() >= limits_page.NO_LIMITS
    assert "| `max.connections` | none | The most connections of the broker" in text


def test_a_new_setting_of_our_own_is_listed_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Setting("ottla.new.bound", ConfigType.INT, 5, doc="What it bounds.")
    monkeypatch.setitem(OWN_SETTINGS, new.name, new)
    assert f"## {limits_page.REST}\n" in limits_page.page()
    assert "| `ottla.new.bound` | `5` | What it bounds. |" in limits_page.page()


def test_every_setting_stands_where_it_belongs() -> None:
    effective, _, idle = page().partition("## Accepted, without effect")
    rows = re.findall(r"^\| `([^`]+)` ", effective, re.MULTILINE)
    listed = [name for line in idle.splitlines() if line.startswith("- ") for name in re.findall(r"`([^`]+)`", line)]
    assert sorted(rows) == sorted(setting.name for setting in SHOWN if setting.effective)
    assert sorted(listed) == sorted(setting.name for setting in SHOWN if not setting.effective)
    assert f"Of Kafka's {len(SHOWN) - len(OWN_SETTINGS)} settings, these {len(listed)} are checked" in idle


def test_every_reason_has_settings() -> None:
    idle = [setting.name for setting in SHOWN if not setting.effective]
    unused = [word for words in WHY_IDLE.values() for word in words if not any(fits(word, name) for name in idle)]
    assert not unused


def test_the_longest_words_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_idle("metadata.log.segment.ms").startswith("The metadata log")
    monkeypatch.setitem(WHY_IDLE, "A longer word", ("num.io.",))
    assert why_idle("num.io.threads") == "A longer word"
    assert why_idle("num.network.threads") != "A longer word"
    with pytest.raises(LookupError, match=r"no\.such has no effect"):
        why_idle("no.such")
