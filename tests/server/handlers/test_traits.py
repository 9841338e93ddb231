"""Every handler declares its traits, and they are those of the table of rights and of what its code does."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from ottla.server import handlers
from ottla.server.handlers import BROKER, BROKER_ONLY, CONTROLLER, served
from ottla.server.network.holding import PRODUCE, PRODUCE_KEY
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.login import ADMITS
from ottla.server.security.rights import Either, Inside, Need, Open, Rights, Whole
from ottla.wire.api import APIS
from ottla.wire.messages import metadata
from ottla.wire.messages.metadata import MetadataResponse
from scripts import rights_page
from scripts.written_pages import outdated

SERVER = Path(handlers.__file__).parents[1]
MODULES = sorted(path.stem for path in Path(handlers.__file__).parent.glob("*.py") if path.stem != "__init__")

OF_THE_WHOLE_REQUEST = {
    "alter the cluster": (
        "add_raft_voter alter_partition_reassignments alter_replica_log_dirs alter_user_scram_credentials create_acls delete_acls"
        " elect_leaders remove_raft_voter unregister_broker unregister_controller update_features"
    ),
    "describe the cluster": (
        "describe_acls describe_log_dirs describe_quorum describe_user_scram_credentials list_partition_reassignments"
    ),
    "describe_configs of the cluster": "describe_client_quotas list_config_resources",
    "alter_configs of the cluster": "alter_client_quotas",
    "cluster_action": (
        "delete_share_group_state initialize_share_group_state read_share_group_state read_share_group_state_summary"
        " write_share_group_state"
    ),
    "cluster_action or alter the cluster": "write_txn_markers",
}
PART_BY_PART = {
    # records
    "produce": "write transactional_id, write topic",
    "fetch": "read topic, cluster_action",
    "list_offsets": "describe topic",
    "offset_for_leader_epoch": "describe topic or cluster_action",
    "delete_records": "delete topic",
    "share_fetch": "read group, read topic",
    "share_acknowledge": "read group, read topic",
    # topics and settings
    "metadata": "describe topic, create cluster or create topic",
    "describe_topic_partitions": "describe topic",
    "create_topics": "create cluster or create topic, describe_configs topic",
    "delete_topics": "delete topic, describe topic",
    "create_partitions": "alter topic",
    "describe_producers": "read topic",
    "describe_configs": "describe_configs topic, describe_configs group, describe_configs cluster",
    "alter_configs": "alter_configs topic, alter_configs group, alter_configs cluster",
    "incremental_alter_configs": "alter_configs topic, alter_configs group, alter_configs cluster",
    # groups and their offsets
    "find_coordinator": "describe group, describe transactional_id, cluster_action",
    "join_group": "read group",
    "sync_group": "read group",
    "heartbeat": "read group",
    "leave_group": "read group",
    "consumer_group_heartbeat": "read group, describe topic",
    "share_group_heartbeat": "read group, describe topic",
    "streams_group_heartbeat": "read group, describe topic, create cluster or create topic",
    "streams_group_topology_description_update": "read group",
    "list_groups": "describe cluster or describe group",
    "describe_groups": "describe group",
    "consumer_group_describe": "describe group, describe topic",
    "share_group_describe": "describe group, describe topic",
    "streams_group_describe": "describe group, describe topic",
    "delete_groups": "delete group",
    "offset_commit": "read group, read topic",
    "offset_fetch": "describe group, describe topic",
    "offset_delete": "delete group, read topic",
    "describe_share_group_offsets": "describe group, describe topic",
    "alter_share_group_offsets": "read group, read topic",
    "delete_share_group_offsets": "delete group, read topic",
    # transactions
    "init_producer_id": "write transactional_id, idempotent_write cluster or write topic",
    "add_partitions_to_txn": "write transactional_id, write topic, cluster_action",
    "add_offsets_to_txn": "write transactional_id, read group",
    "txn_offset_commit": "write transactional_id, read group, read topic",
    "end_txn": "write transactional_id",
    "describe_transactions": "describe transactional_id, describe topic",
    "list_transactions": "describe transactional_id",
    # delegation tokens
    "create_delegation_token": "create_tokens user",
    "describe_delegation_token": "describe delegation_token or describe_tokens user",
}
OPEN = {
    "api_versions",
    "describe_cluster",
    "expire_delegation_token",
    "get_telemetry_subscriptions",
    "push_telemetry",
    "renew_delegation_token",
    "sasl_authenticate",
    "sasl_handshake",
}
DIFFERS = "a handler differs from the list in this test: if that is right, change the list as well"


@cache
def handler(module: str) -> ModuleType:
    return importlib.import_module(f"ottla.server.handlers.{module}")


def traits(module: str) -> Traits:
    found = getattr(handler(module), "TRAITS", None)
    assert type(found) is Traits, f"server/handlers/{module}.py declares no TRAITS"
    return found


def source(module: str) -> str:
    return (Path(handlers.__file__).parent / f"{module}.py").read_text()


def words(need: Need | Either) -> str:
    if isinstance(need, Either):
        return f"{words(need.first)} or {words(need.second)}"
    text = f"{need.operation.name} {need.resource.name}".lower()
    return text.replace("cluster_action cluster", "cluster_action")


def rights_in_words(rights: Rights) -> tuple[str, ...]:
    match rights:
        case Whole(need=need):
            return ("whole", words(need))
        case Inside(needs=needs):
            return ("inside", ", ".join(map(words, needs)))
        case Open(why=why):
            assert why
            return ("open",)


def expected_rights() -> dict[str, tuple[str, ...]]:
    whole = {
        module: ("whole", right.replace(" the ", " ").replace(" of ", " "))
        for right, modules in OF_THE_WHOLE_REQUEST.items()
        for module in modules.split()
    }
    return whole | {name: ("inside", text) for name, text in PART_BY_PART.items()} | dict.fromkeys(OPEN, ("open",))


@pytest.mark.parametrize("module", MODULES)
def test_a_handler_declares_its_rights(module: str) -> None:
    assert module in expected_rights(), f"add {module} to the table of rights: OF_THE_WHOLE_REQUEST, PART_BY_PART or OPEN"
    assert rights_in_words(traits(module).rights) == expected_rights()[module]


def test_the_page_of_rights_is_that_of_the_declarations() -> None:
    assert outdated(rights_page.pages()) == [], "rights have changed: run python -m scripts.rights_page"
    assert len(rights_page.page().partition("|---|\n")[2].splitlines()) == len(MODULES)


def test_the_table_names_no_handler_that_there_is_not() -> None:
    named, there = expected_rights().keys(), set(MODULES)
    assert not named - there, "the table of rights names what is no handler"
    assert not there - named, "the table of rights lacks handlers: add them to OF_THE_WHOLE_REQUEST, PART_BY_PART or OPEN"
    assert len(OPEN) + len(PART_BY_PART) + sum(len(names.split()) for names in OF_THE_WHOLE_REQUEST.values()) == len(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_handler_asks_the_controller_and_not_which_one_it_is(module: str) -> None:
    assert "follows_controllers" not in source(module), "make it an operation of Controller, which each kind implements"


def test_a_module_that_is_no_apis_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "astray.py").touch()
    monkeypatch.setattr(handlers, "__path__", [*handlers.__path__, str(tmp_path)])
    with pytest.raises(ImportError, match="holds astray, but"):
        served.__wrapped__()


def declaring(trait: str) -> set[str]:
    return {module for module in MODULES if getattr(traits(module), trait)}


KEPT_TWICE = {"before_authentication", "broker_only"}
"""The traits that are asked for where no handler may be imported; the first tests below compare them with their copies."""


def read_by_product_code() -> set[str]:
    """Returns the traits that code of the server outside the handlers looks up in an object."""
    paths = [path for path in SERVER.rglob("*.py") if path.parent.name != "handlers"]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} & set(Traits._fields)


def test_a_trait_is_read_where_it_counts_unless_it_is_kept_twice() -> None:
    """A trait that nothing reads is declared in vain, since it changes nothing. ARCHITECTURE.md says which are kept twice."""
    assert set(Traits._fields) - read_by_product_code() == KEPT_TWICE
    for trait, copy in (("broker_only", "BROKER_ONLY"), ("before_authentication", "ADMITS")):
        assert copy in (SERVER / "requests" / "traits.py").read_text(), f"the docstring of {trait} names its copy"


def test_what_a_client_may_ask_before_it_has_logged_in() -> None:
    """A login serves its frames without the dispatch, and lies below the handlers, so it has the keys of these APIs itself."""
    assert declaring("before_authentication") == {"api_versions", "sasl_handshake", "sasl_authenticate"}
    assert declaring("before_authentication") == {APIS[key].module for admitted in ADMITS.values() for key in admitted}


def test_what_only_brokers_listeners_serve() -> None:
    """The list is kept beside the declarations, since lists of APIs are made without importing a handler."""
    assert declaring("broker_only") == BROKER_ONLY == {"fetch"}
    both = {api.module for api in served(BROKER).values() if CONTROLLER in api.listeners}
    assert {api.module for api in served(CONTROLLER).values()} == both - BROKER_ONLY | {
        api.module for api in served(CONTROLLER).values() if BROKER not in api.listeners
    }


def test_who_asks_for_its_rights_itself() -> None:
    """Each of them asks; that others have a guard is in tests/server/guards/test_link.py."""
    asking = {module for module in MODULES if getattr(traits(module).rights, "in_handler", False)}
    assert asking == {"fetch", "create_delegation_token", "describe_delegation_token"}, DIFFERS


def test_whose_requests_carry_records() -> None:
    """The network knows Produce by its key, before anything is decoded: it is the only such API."""
    assert declaring("carries_records") == {"produce"}, DIFFERS
    assert {APIS[PRODUCE_KEY].module, APIS[int.from_bytes(PRODUCE)].module} == declaring("carries_records")


def test_who_has_codecs_of_its_own() -> None:
    assert declaring("own_codecs") == {"produce"}, DIFFERS
    own, generated = traits("produce").own_codecs, importlib.import_module("ottla.wire.messages.produce")
    assert own is not None
    assert own.DECODE_REQUEST.keys() == generated.DECODE_REQUEST.keys()
    assert own.ENCODE_RESPONSE.keys() == generated.ENCODE_RESPONSE.keys()


def test_what_counts_against_quotas() -> None:
    special = {module: traits(module).throttling for module in MODULES if traits(module).throttling is not Throttling.REQUEST}
    assert special == {
        "produce": Throttling.PRODUCE,
        "fetch": Throttling.FETCH,
        "share_fetch": Throttling.ANSWER,
        "write_txn_markers": Throttling.NOTHING,
    }, DIFFERS


def test_who_creates_or_deletes_partitions_asks_for_permits() -> None:
    """Metadata is among them, for the topics that it creates on the way."""
    asking = {module for module in MODULES if ".permits(" in source(module)}
    assert asking == {"create_topics", "create_partitions", "delete_topics", "metadata"}, DIFFERS


def test_whose_answers_may_hold_regions_of_files() -> None:
    assert declaring("answers_with_regions") == {"fetch", "share_fetch"}, DIFFERS


def test_whose_answers_may_be_much_longer_than_their_requests() -> None:
    """Their lists are bounded, and nobody else's, because only the encoding of these is watched."""
    bounding = {module for module in MODULES if "long_answers" in source(module)}
    assert declaring("long_answer") == bounding, "who makes lists by `long_answers` declares `long_answer=True`, and nobody else"
    assert bounding == {
        "consumer_group_describe",
        "delete_acls",
        "describe_configs",
        "describe_groups",
        "describe_producers",
        "describe_share_group_offsets",
        "describe_transactions",
        "list_transactions",
        "offset_fetch",
        "share_group_describe",
        "streams_group_describe",
    }, DIFFERS


def assigns_failed(text: str) -> bool:
    """Does a source assign `failed` of anything, in whatever form?"""
    nodes = ast.walk(ast.parse(text))
    return any(isinstance(node, ast.Attribute) and node.attr == "failed" and isinstance(node.ctx, ast.Store) for node in nodes)


@pytest.mark.parametrize(
    "text", ["request.failed = True", "a = self._request.failed = True", "request.failed |= any(codes)", "request.failed, b = c"]
)
def test_every_assignment_is_found(text: str) -> None:
    assert assigns_failed(text)
    assert not assigns_failed("if request.failed: failed = True")


def test_who_reports_failure_sets_it_and_nobody_else_does() -> None:
    """Nothing reads `Request.failed` of the others: their answers are searched for error codes."""
    setting = {module for module in MODULES if assigns_failed(source(module))}
    assert declaring("reports_failure") == setting == {"produce", "fetch"}


@pytest.mark.parametrize("version", metadata.ENCODE_RESPONSE)
def test_an_answer_that_is_kept_begins_with_the_throttle_time(version: int) -> None:
    (module,) = (module for module in MODULES if traits(module).kept_throttle_time_since is not None)
    assert module == "metadata"
    since = traits("metadata").kept_throttle_time_since
    assert since is not None
    plain: list[bytes] = []
    throttled: list[bytes] = []
    metadata.ENCODE_RESPONSE[version](MetadataResponse(), plain)
    metadata.ENCODE_RESPONSE[version](MetadataResponse(throttle_time_ms=0x01020304), throttled)
    if version < since:
        assert b"".join(plain) == b"".join(throttled)
    else:
        assert b"".join(throttled) == b"\1\2\3\4" + b"".join(plain)[4:]
