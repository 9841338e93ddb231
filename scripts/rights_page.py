"""Writes docs/rights.md: which right each API asks for, from the traits that the handlers declare.

`python -m scripts.rights_page` writes it, and tests/server/handlers/test_traits.py fails when it is out of date.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.server.security.rights import Either, Inside, Need, Open, Resource, Rights, Whole
from ottla.wire.errors import ErrorCode
from scripts.written_pages import main

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "rights.md"
HEAD: Final = """# Rights by API

With access rules ([Securing ottla](security.md#access-rules-acls)) every request asks for the rights in this table, which are
those of Apache Kafka 4.4. They are asked for in this order, and only for resources that the request names: a Produce without a
transactional id needs no right to one.

- **request**: one right decides about the whole request. Without it every part of the answer has the error.
- **each**: topics, groups and so on are asked about one by one. Those that are refused have the error, or are left out where the
  request lists what there is; the others are served.

Errors: 29 TOPIC_AUTHORIZATION_FAILED, 30 GROUP_AUTHORIZATION_FAILED, 31 CLUSTER_AUTHORIZATION_FAILED, 53
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 65 DELEGATION_TOKEN_AUTHORIZATION_FAILED. READ, WRITE, DELETE and ALTER imply DESCRIBE, and
ALTER_CONFIGS implies DESCRIBE_CONFIGS. Operations and types of resources have Kafka's names, as `ottla acl add` and `kafka-acls`
take them.

This page is written by `scripts/rights_page.py` from what the handlers declare.

| API | asks for | of | without it |
|---|---|---|---|
"""
NAMES: Final = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.CLUSTER: "cluster",
    Resource.TRANSACTIONAL_ID: "transactional id",
    Resource.DELEGATION_TOKEN: "delegation token",
    Resource.USER: "user",
}
REFUSALS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error with which a right to a resource is refused."""
OTHERWISE: Final = {
    "DescribeDelegationToken": "left out",
    "DescribeTransactions": "53; topics are left out",
    "Fetch": "29, brokers as well",
    "InitProducerId": "53; without an id 31",
    "ListGroups": "left out",
    "ListTransactions": "left out",
    "OffsetForLeaderEpoch": "29",
}
"""The answers of APIs that do not follow from the resources."""


def words(need: Need | Either) -> str:
    """Returns a need in words: `WRITE topic`."""
    if isinstance(need, Either):
        return f"{words(need.first)} or {words(need.second)}"
    return f"{need.operation.name} {NAMES[need.resource]}"


def resource(need: Need | Either) -> Resource:
    """Returns the resource whose error is given; of two rights that will do, the last that is asked for."""
    return need.second.resource if isinstance(need, Either) else need.resource


def row(name: str, rights: Rights) -> str:
    """Returns the table's row of an API."""
    if isinstance(rights, Open):
        return f"| {name} | nothing: {rights.why} | | |"
    needs = (rights.need,) if isinstance(rights, Whole) else rights.needs
    errors = dict.fromkeys(REFUSALS[resource(need)] for need in needs)
    refused = OTHERWISE.get(name) or ", ".join(str(int(error)) for error in errors)
    scope = "each" if isinstance(rights, Inside) else "request"
    return f"| {name} | {', '.join(map(words, needs))} | {scope} | {refused} |"


def page() -> str:
    """Returns the page's text."""
    apis = {api.name: api.module for role in (BROKER, CONTROLLER) for api in served(role).values()}
    rows = [row(name, _rights(apis[name])) for name in sorted(apis)]
    return HEAD + "\n".join(rows) + "\n"


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PAGE: page()}


def _rights(module: str) -> Rights:
    rights: Rights = importlib.import_module(f"ottla.server.handlers.{module}").TRAITS.rights
    return rights


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
