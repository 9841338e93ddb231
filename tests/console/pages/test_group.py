"""One group: members with what they have and shall have, and where it is."""

from __future__ import annotations

from dataclasses import replace

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import MemberState, OffsetState
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, group_state, topic_summary

HAS, SHALL = (Partition("t", 0), Partition("t", 1)), (Partition("t", 0),)
MEMBER = MemberState("m", "i", "client", "/127.0.0.1", HAS, epoch=4, target=SHALL)
GROUP = replace(
    group_state("g/a b", "consumer", "Reconciling", epoch=5, target_epoch=4),
    members=(MEMBER,),
    offsets=(OffsetState(HAS[0], 5, 12, MEMBER), OffsetState(HAS[1], None, None, MEMBER)),
)


def test_members_assignment_and_lag() -> None:
    with browsing(FakeSource(states_of=[GROUP])) as browser:
        page = browser.get("/group?id=g%2Fa+b").text
    members, offsets = cells(page)[:12], cells(page)[12:]
    assert members == [
        *("Client id", "Host", "Member", "Assigned", "Epoch", "Target"),
        *("client", "/127.0.0.1", "m instance i", "t:0,1", "4", "t:0"),
    ]
    assert offsets[6:] == ["t", "0", "5", "12", "7", "client", "t", "1", "–", "–", "–", "client"]
    assert "5 (target 4)" in page
    assert 'href="/group/reset?id=g%2Fa%20b"' in page


def test_partitions_without_a_commit_are_named_if_nobody_reads() -> None:
    offsets = (OffsetState(Partition("orders", 2), 1500, 1905), OffsetState(Partition("gone", 0), 1, None))
    topics = [topic_summary("orders", 3), topic_summary("other", 9)]
    said = "The lag leaves out 2 partitions of orders without a committed offset"
    for members, kind, expected in [((), "classic", 1), ((MEMBER,), "classic", 0), ((), "share", 0)]:
        one = replace(group_state("g", kind), members=members, offsets=offsets)
        with browsing(FakeSource(states_of=[one], topics=topics)) as browser:
            page = browser.get("/group?id=g").text
        assert page.count("The lag leaves out") == page.count(said) == expected


def test_read_only_offers_no_reset() -> None:
    with browsing(FakeSource(states_of=[GROUP]), read_only=True) as browser:
        assert "reset" not in browser.get("/group?id=g%2Fa+b").text


def test_a_group_that_is_not_there() -> None:
    with browsing(FakeSource()) as browser:
        assert [browser.get(path).status for path in ("/group", "/group?id=x", "/group/reset?id=x")] == [404] * 3
