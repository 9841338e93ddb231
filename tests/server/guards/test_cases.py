"""Each case of compat_tests/wire_diff/rights_cases.py against the codes that stand there, in one process, without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.wire_diff.rights import AUTHORIZATION_CODES, DOOMED, Case, Right, T, U, combinations, host_of, rules_for
from compat_tests.wire_diff.rights_cases import all_cases
from ottla.server.dispatch.chain import Place
from ottla.server.handlers import BROKER, served
from ottla.server.security.rights import Either, Inside, Need, Open, Operation, Resource, Whole
from ottla.wire.primitives import WireStruct
from tests.server.guards.guarded import ANONYMOUS, Guarded, guarded, rule
from tests.server.handlers.test_traits import traits

CASES = all_cases()
WITHOUT_A_CASE = {
    "create_delegation_token": "tokens need a login: tests/server/handlers has the cases",
    "describe_delegation_token": "likewise",
}
EXTRA = {("metadata", Operation.CREATE, Resource.CLUSTER), ("streams_group_heartbeat", Operation.CREATE, Resource.CLUSTER)}
"""Rights that are an alternative to one in a case, or in a test of their own."""
SEPARATE = {
    ("streams_group_heartbeat", Operation.CREATE, Resource.TOPIC),
    ("share_fetch", Operation.READ, Resource.TOPIC),
    ("share_acknowledge", Operation.READ, Resource.TOPIC),
    ("consumer_group_describe", Operation.DESCRIBE, Resource.TOPIC),
    ("share_group_describe", Operation.DESCRIBE, Resource.TOPIC),
    ("streams_group_describe", Operation.DESCRIBE, Resource.TOPIC),
    ("describe_transactions", Operation.DESCRIBE, Resource.TOPIC),
}
"""Rights whose tests are in test_guards.py, because they need members, sessions or transactions."""


def codes_in(value: Any) -> Iterator[int]:
    """Yields every error code in an answer, wherever it stands."""
    if isinstance(value, WireStruct):
        for name in value.__slots__:
            inside = getattr(value, name)
            if name.endswith("error_code") and name != "topic_config_error_code" and isinstance(inside, int):
                yield inside
            else:
                yield from codes_in(inside)
    elif isinstance(value, list):
        for each in value:
            yield from codes_in(each)


def test_every_case() -> None:
    wrong: list[tuple[str, str, Any]] = []

    async def scenario(broker: Guarded) -> None:
        await broker.create(T, U, DOOMED, f"{DOOMED}-2")
        await broker.find("rights-g", 0)
        await broker.find("rights-x", 1)
        number = 0
        for case in CASES:
            for lack, rights, missing in combinations(case.rights):
                host = host_of(number)
                number += 1
                if rights:
                    await broker.allow(*rules_for(rights, host))
                session = broker.session(ANONYMOUS, host)
                answer = await broker.ask(case.request(broker.topic_id_or_none), case.version, session)
                found = AUTHORIZATION_CODES.intersection(codes_in(answer))
                if found != expected(case, rights, missing):
                    wrong.append((case.name, lack, found))

    guarded(scenario)
    assert not wrong, wrong


def expected(case: Case, rights: tuple[Right, ...], missing: Right | None) -> set[int]:
    """The codes that stand in an answer to a client with these rights."""
    if case.name == "produce transactional without an id":
        return {53}
    if missing is not None:
        return {missing.code} - {0}
    if rights:
        return set()
    first = case.rights[0].resource
    if case.api in ("describe_configs", "alter_configs", "incremental_alter_configs"):
        return {right.code for right in case.rights}
    return {right.code for right in case.rights if right.resource is first} - {0} or hidden(case)


def hidden(case: Case) -> set[int]:
    """Returns what stands in an answer without any right where no single right is needed for all of it."""
    return {30} if case.api == "describe_groups" else set()


def test_every_need_is_in_a_case() -> None:
    asked = {(case.api, right.operation, right.resource) for case in CASES for right in case.rights} | EXTRA | SEPARATE
    for api in served(BROKER).values():
        declared = traits(api.module).rights
        needs = declared.needs if isinstance(declared, Inside) else (declared.need,) if isinstance(declared, Whole) else ()
        assert needs or isinstance(declared, Open)
        for need in needs if api.module not in WITHOUT_A_CASE else ():
            for each in (need,) if isinstance(need, Need) else tuple(need):
                if isinstance(need, Either) and api.module == "describe_groups":
                    continue
                assert (api.module, each.operation, each.resource) in asked, (
                    f"no case asks {api.module} with and without {each.operation.name} on {each.resource.name}:"
                    " add one to a module rights_*.py of compat_tests/wire_diff"
                )


def test_an_authorizer_is_a_link_next_to_the_handler() -> None:
    async def scenario(broker: Guarded) -> None:
        assert sorted(Place)[:2] == [Place.NODES, Place.AUTHORIZATION]  # and nodes are simulated only in tests
        await broker.create("t")
        await broker.allow(rule(3, "t"))

    guarded(scenario)
