"""One setting: the grammar of each type, bounds, and text there and back."""

from __future__ import annotations

import math
import pickle

import pytest

from ottla.log.config_def import ConfigError, ConfigType, InvalidSetting, Secret, Setting, Update, Value, text_of


def setting(kind: ConfigType) -> Setting:
    return Setting("a.name", kind, None)


def is_even(value: Value) -> str | None:
    assert isinstance(value, tuple)
    return "is even" if len(value) % 2 == 0 else None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, " 7 ", 7),
        (ConfigType.LONG, "٣", 3),  # Java takes any digit there is
        (ConfigType.DOUBLE, "0.5f", 0.5),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "0x1p-1", 0.5),
        (ConfigType.DOUBLE, "-Infinity", -math.inf),
        (ConfigType.DOUBLE, "-0x1p99999", -math.inf),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.STRING, " word ", "word"),
    ],
)
def test_texts_that_java_takes(kind: ConfigType, text: str, value: object) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "is neither true nor false"),
        (ConfigType.INT, "1_000", "is not a whole number of 32 bits; write it in digits"),
        (ConfigType.INT, "2147483648", "is not a whole number of 32 bits; write it in digits"),
        (ConfigType.SHORT, "32768", "is not a whole number of 16 bits; write it in digits"),
        (ConfigType.LONG, "9223372036854775808", "is not a whole number of 64 bits; write it in digits"),
        (ConfigType.LONG, "1" * 5_000, "is not a whole number of 64 bits; write it in digits"),
        (ConfigType.LONG, "1.0", "is not a whole number of 64 bits; write it in digits"),
        (ConfigType.LONG, "", "is not a whole number of 64 bits; write it in digits"),
        (ConfigType.DOUBLE, "1_0.0", "is not a number; write one such as 0.5"),
        (ConfigType.DOUBLE, "infinity", "is not a number; write one such as 0.5"),
    ],
)
def test_texts_that_java_refuses(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        setting(kind).parse(text)
    assert str(refused.value) == f"a.name: '{text}' {reason}"
    assert (refused.value.name, refused.value.text, refused.value.reason) == ("a.name", text, reason)


def test_bounds_are_inclusive() -> None:
    bounded = setting(ConfigType.INT)._replace(low=1, high=9)
    assert [bounded.parse(text) for text in ("1", "9")] == [1, 9]
    with pytest.raises(InvalidSetting, match=r"a.name: '0' is too small; the least is 1"):
        bounded.parse("0")
    with pytest.raises(InvalidSetting, match=r"a.name: '10' is too large; the most is 9"):
        bounded.parse("10")


def test_not_a_number_lies_in_all_bounds() -> None:
    value = setting(ConfigType.DOUBLE)._replace(low=0, high=1).parse("NaN")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_choices_hold_for_each_element_of_a_list() -> None:
    listed = setting(ConfigType.LIST)._replace(choices=("a", "b"), unique=True)
    assert listed.parse("b,a,b") == ("b", "a")
    with pytest.raises(InvalidSetting, match=r"a.name: 'c' is not one of a, b"):
        listed.parse("a,c")
    with pytest.raises(ConfigError, match=r"a.name: an element of the list is empty"):
        listed.parse("a,")
    with pytest.raises(ConfigError, match=r"a.name: an empty list is not accepted; choose from a, b"):
        listed._replace(required=True).parse("")


def test_a_check_shows_what_it_refuses() -> None:
    odd = setting(ConfigType.LIST)._replace(check=is_even)
    assert odd.parse("a") == ("a",)
    with pytest.raises(InvalidSetting, match=r"a.name: 'a,b' is even"):
        odd.parse("a,b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (5, "5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_texts_are_java_s(value: float | tuple[str, ...] | None, text: str | None) -> None:
    assert text_of(value) == text


def test_passwords_are_never_written() -> None:
    password = setting(ConfigType.PASSWORD)
    secret = password.parse(" secret ")
    assert secret == Secret("secret") != Secret("other")
    assert password.format(secret) is None
    assert password.sensitive


def test_a_secret_shows_itself_to_who_asks_for_it_only() -> None:
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    assert f"{secret} {secret!r} {secret:>10}" == "[hidden] [hidden]   [hidden]"
    assert "%s" % secret == str([secret])[1:-1] == text_of(secret) == "[hidden]"  # noqa: UP031 - as a log line does it
    assert secret != "hunter2"
    assert (bool(secret), bool(Secret("")), {secret: 1}[Secret("hunter2")]) == (True, False, 1)
    with pytest.raises(TypeError, match="is not written down"):
        pickle.dumps(secret)


def test_only_read_only_ones_need_a_restart() -> None:
    assert [setting(ConfigType.INT)._replace(update=update).dynamic for update in Update] == [False, True, True]
