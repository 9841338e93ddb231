"""Tests of the names that the members of a group subscribe to."""

from __future__ import annotations

import pytest

from ottla.server.group.errors import GroupError
from ottla.server.group.modern import names as module
from ottla.server.group.modern.names import Names
from ottla.wire.errors import ErrorCode

NOTHING: frozenset[str] = frozenset()


def of(text: str) -> frozenset[str]:
    return frozenset(text)


def counted(*subscriptions: str) -> Names:
    names = Names()
    for text in subscriptions:
        names.change(NOTHING, of(text))
    return names


def test_each_name_is_counted_once_for_each_who_subscribes_to_it() -> None:
    names = counted("ab", "bc")
    names.change(of("ab"), of("bd"))
    assert names.counts == {"b": 2, "c": 1, "d": 1}
    names.change(of("bc"))
    assert names.counts == {"b": 1, "d": 1}
    names.change(of("bd"), of("bd"))
    assert names.counts == {"b": 1, "d": 1}


def test_who_subscribes_to_the_same_names_shares_them_as_long_as_anybody_does() -> None:
    names, one, other = Names(), of("ab"), of("ab")
    assert names.shared(one) is one
    for _ in range(2):
        names.change(now=one)
    assert names.shared(other) is one
    names.change(one, of("bc"))
    assert names.shared(other) is one
    names.change(one)
    assert names.shared(other) is other
    assert names.shared(of("bc")) is not one
    names.change(of("bc"))
    assert names == Names(), "nothing is left"


def test_what_is_in_both_is_not_looked_at() -> None:
    """A large subscription that changes by a name costs one name, and one that does not change costs none."""
    looked: list[str] = []

    class Watched(dict[str, int]):
        def __getitem__(self, key: str) -> int:
            looked.append(key)
            return super().__getitem__(key)

    names = counted("abcdefgh")
    names.counts = Watched(names.counts)
    names.change(of("abcdefgh"), of("bcdefgh"))
    assert looked == ["a"]
    names.change(of("bcdefgh"), of("bcdefgh"))
    assert looked == ["a"]


def test_what_there_would_be_after_a_change() -> None:
    names = counted("ab", "bc")
    assert names.changed() == {"a", "b", "c"}
    assert names.changed([of("ab")]) == {"b", "c"}
    assert names.changed([of("ab")], of("ad")) == {"a", "b", "c", "d"}
    assert names.changed([of("ab"), of("bc")]) == set()
    assert names.changed([of("ab"), of("bc")], of("d")) == {"d"}
    assert names.changed([of("xy")]) == {"a", "b", "c"}, "what nobody subscribes to"
    assert names.counts == {"a": 1, "b": 2, "c": 1}


def refused(names: Names, former: str, now: str) -> bool:
    try:
        names.check_change(of(former), of(now))
    except GroupError:
        return True
    return False


def test_the_refusal_has_our_own_message() -> None:
    many = frozenset(map(str, range(module.MOST_NAMES + 1)))
    with pytest.raises(GroupError, match="more than 20,000 topics") as refusal:
        Names().check_change(NOTHING, many)
    assert refusal.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_has_only_so_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 4)
    names = counted("ab", "bc")
    assert refused(names, "", "de")
    assert refused(names, "", "fghij")
    assert not refused(names, "", "d")
    assert not refused(names, "", "abc")
    assert not refused(names, "ab", "de"), "a is gone then"
    assert not refused(counted("ab", "ab"), "ab", "ab")


def test_a_group_that_has_more_keeps_them_and_gets_no_further_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 4)
    names = counted("abcdef", "b")
    assert not refused(names, "abcdef", "abcdef")
    assert not refused(names, "abcdef", "bcdef")
    assert not refused(names, "abcdef", "bcdefg"), "one for another"
    assert refused(names, "b", "bg")
