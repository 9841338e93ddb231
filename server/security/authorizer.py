"""The authorizer decides who may do what: an index of the cluster's access rules (ACLs), and Kafka's rule for deciding by them.

It decides as Kafka's StandardAuthorizer does (org.apache.kafka.metadata.authorizer):

1. A super user may do everything.
2. The rules that count are those for exactly this name, for each prefix of it, and for `*`, as far as they are about this
   principal or `User:*`, and about this host, a network that it is in, or `*`. Hosts are compared as texts
   (server/base/hosts.py); names are never resolved.
3. If any of them denies the operation, or ALL, the answer is no.
4. If any of them allows the operation, or ALL, or one that implies it, the answer is yes. READ, WRITE, DELETE and ALTER imply
   DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS. Denials imply nothing.
5. If there is any rule for the resource, whoever it is about, the answer is no; otherwise `allow.everyone.if.no.acl.found` says.

The index finds the rules for a name without looking at others: by the name, and by each length that a prefix has. What was
decided is kept per principal and host (`Rights`) until the next change of a rule. All that is kept together is bounded.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.server.base.hosts import is_in_network, java_form
from ottla.server.security.audit import Audit
from ottla.server.security.rights import Need, Operation, Resource
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord

ALL: Final = 2
"""The operation of a rule that is about all operations."""
DENY: Final = 2
ALLOW: Final = 3
LITERAL: Final = 3
PREFIXED: Final = 4
WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

MOST_KEPT: Final = 100_000
"""So many decisions are kept, about 10 MB, and 40 if somebody asks for the longest names; then the authorizer forgets all of
them and begins again."""
LONGEST_KEPT: Final = 250
"""So many characters, all of them ASCII, a name may have whose decision is kept: no topic has more or others. Clients can ask
about names of any length, and of characters of four bytes."""

IMPLYING: Final = {
    Operation.DESCRIBE: frozenset((ALL, Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}
"""The operations a right to which is enough, where these are more than the operation itself and ALL."""

PROBE: Final = "hardcode"
"""The name of the made-up resource about which Kafka asks before it looks for any resource with a right."""

Rule = AccessControlEntryRecord
_Rules = dict[str, dict[bytes, Rule]]
"""Rules for one name or prefix, by principal and id."""

_OPERATION_NAMES: Final = {0: "UNKNOWN", 1: "ANY", ALL: "ALL", **{each.value: each.name for each in Operation}}
_RESOURCE_NAMES: Final = {0: "UNKNOWN", 1: "ANY", **{each.value: each.name for each in Resource}}
_PATTERN_NAMES: Final = {0: "UNKNOWN", 1: "ANY", 2: "MATCH", LITERAL: "LITERAL", PREFIXED: "PREFIXED"}
_PERMISSION_NAMES: Final = {0: "UNKNOWN", 1: "ANY", DENY: "DENY", ALLOW: "ALLOW"}
_WRITE_TOPIC: Final = Resource.TOPIC << 8 | Operation.WRITE
_NOTHING: Final[Mapping[str, bool]] = {}
_NO_RULES: Final[Mapping[bytes, Rule]] = {}


class Decision(NamedTuple):
    """Says whether something is allowed, and why: by a rule, because of a super user, or because no rule says anything."""

    allowed: bool
    rule: Rule | None
    without_rule: str = ""
    """The reason for the decision if no rule decided."""

    @property
    def reason(self) -> str:
        """Returns why, for the audit log and people."""
        return self.without_rule if self.rule is None else f"MatchingAcl(acl={describe_rule(self.rule)})"


def describe_rule(rule: Rule) -> str:
    """Returns a rule as one line of text, in the form of Kafka's audit log: its fields by their names in the protocol."""
    fields = {
        "resourceType": _RESOURCE_NAMES.get(rule.resource_type, rule.resource_type),
        "resourceName": rule.resource_name,
        "patternType": _PATTERN_NAMES.get(rule.pattern_type, rule.pattern_type),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _OPERATION_NAMES.get(rule.operation, rule.operation),
        "permissionType": _PERMISSION_NAMES.get(rule.permission_type, rule.permission_type),
    }
    return f"StandardAcl({', '.join(f'{name}={value}' for name, value in fields.items())})"


class Authorizer:
    """Decides by the rules that it was given. `super_users` are principals such as `User:admin`."""

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_without_rules: bool = False,
        rules: Iterable[Rule] = (),
        audit: Audit | None = None,
    ) -> None:
        """With `allow_without_rules` everybody may do everything to a resource for which there is no rule."""
        self.super_users = frozenset(super_users)
        self.audit = audit or Audit(lambda: 0.0)
        """The audit log, in which those who ask note what was decided."""
        self._allow_without_rules = allow_without_rules
        self._by_name: dict[tuple[int, str], _Rules] = {}
        self._by_prefix: dict[tuple[int, str], _Rules] = {}
        self._lengths: dict[int, list[int]] = {}
        """The lengths of the prefixes with rules, by type of resource, sorted."""
        self._of_length: Counter[tuple[int, int]] = Counter()
        """The number of prefixes of each length, by type of resource and length."""
        self.kept_rights: dict[tuple[str, str], Rights] = {}
        """The results of `rights`, by principal and host: the same dictionary always, which may be looked at without a call."""
        self.kept = 0
        """The number of decisions that are kept."""
        self.times_forgotten = 0
        """The number of times that all of them were forgotten."""
        self.rule_count = 0
        """The number of rules."""
        for rule in rules:
            self._add(rule)

    # Changes of rules

    def change(self, changes: Iterable[tuple[Rule | None, Rule | None]]) -> None:
        """Takes rules out and puts rules in, each change as (removed, added), and forgets what was decided."""
        for removed, added in changes:
            if removed is not None:
                self._remove(removed)
            if added is not None:
                self._add(added)
        self.forget()

    def _add(self, rule: Rule) -> None:
        self.rule_count += 1
        table, key = self._place(rule)
        rules = table.get(key)
        if rules is None:
            rules = table[key] = {}
            if rule.pattern_type == PREFIXED:
                length = rule.resource_type, len(rule.resource_name)
                self._of_length[length] += 1
                if self._of_length[length] == 1:
                    insort(self._lengths.setdefault(rule.resource_type, []), length[1])
        rules.setdefault(rule.principal, {})[rule.id] = rule

    def _remove(self, rule: Rule) -> None:
        self.rule_count -= 1
        table, key = self._place(rule)
        rules = table[key]
        of_principal = rules[rule.principal]
        del of_principal[rule.id]
        if of_principal:
            return
        del rules[rule.principal]
        if not rules:
            del table[key]
            if rule.pattern_type == PREFIXED:
                length = rule.resource_type, len(rule.resource_name)
                self._of_length[length] -= 1
                if not self._of_length[length]:
                    del self._of_length[length]
                    self._lengths[rule.resource_type].remove(length[1])

    def _place(self, rule: Rule) -> tuple[dict[tuple[int, str], _Rules], tuple[int, str]]:
        table = self._by_prefix if rule.pattern_type == PREFIXED else self._by_name
        return table, (rule.resource_type, rule.resource_name)

    # Decisions

    def ask(self, principal: str, host: str, api: str) -> Ask:
        """Returns what answers the questions of one request, to the API of this name."""
        return Ask(self.rights(principal, host), self.audit, api)

    def rights(self, principal: str, host: str) -> Rights:
        """Returns the rights of a principal at a host; good for one request: a later one may find other rules."""
        rights = self.kept_rights.get((principal, host))
        if rights is None:
            if self.kept >= MOST_KEPT:
                self.forget()
            self.kept += 1
            rights = self.kept_rights[principal, host] = Rights(self, principal, host)
        return rights

    def forget(self) -> None:
        """Forgets what was decided. The rights that it gave so far answer on, and keep nothing more."""
        self.kept_rights.clear()
        self.times_forgotten += 1
        self.kept = 0

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        """Decides on one operation on one resource. The host is an address as Java writes it."""
        if principal in self.super_users:
            return Decision(True, None, "SuperUser")
        allowing = IMPLYING.get(operation) or (ALL, operation)
        allowed: Rule | None = None
        found = False
        for rules in self._rules_for(resource, name):
            found = True
            for who in (principal, EVERYBODY):
                for rule in rules.get(who, _NO_RULES).values():
                    if rule.host not in (WILDCARD, host) and not _is_in_network(host, rule.host):
                        continue
                    if rule.permission_type == DENY:
                        if rule.operation in (operation, ALL):
                            return Decision(False, rule)
                    elif allowed is None and rule.operation in allowing and rule.permission_type == ALLOW:
                        allowed = rule
        if allowed is not None:
            return Decision(True, allowed)
        if found or not self._allow_without_rules:
            return Decision(False, None, "DefaultDeny")
        return Decision(True, None, "DefaultAllow")

    def considered(self, principal: str, resource: Resource, name: str) -> list[Rule]:
        """Returns the rules that `decide` looks at for a name, as far as they are about this principal or everybody."""
        return [
            rule
            for rules in self._rules_for(resource, name)
            for who in dict.fromkeys((principal, EVERYBODY))
            for rule in rules.get(who, _NO_RULES).values()
        ]

    def _rules_for(self, resource: int, name: str) -> Iterator[_Rules]:
        """Yields the rules that count for a name, whoever they are about."""
        exact = self._by_name.get((resource, name))
        if exact is not None:
            yield exact
        if name != WILDCARD:
            for_all = self._by_name.get((resource, WILDCARD))
            if for_all is not None:
                yield for_all
        for length in self._lengths_up_to(resource, len(name)):
            prefixed = self._by_prefix.get((resource, name[:length]))
            if prefixed is not None:
                yield prefixed

    def _lengths_up_to(self, resource: int, length: int) -> list[int]:
        lengths = self._lengths.get(resource, [])
        return lengths[: bisect_right(lengths, length)]

    def decide_any(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Decides whether the principal may do an operation on any resource of a type, which need not exist.

        As in Kafka, an allowance counts unless a denial of `*`, of the same name and kind of pattern, or of a prefix of its name
        covers it; a denial of a longer name does not matter.
        """
        if self.decide(principal, host, operation, resource, PROBE).allowed:
            return True
        denied, allowed = set[tuple[int, str]](), list[tuple[int, str]]()
        for table in (self._by_name, self._by_prefix):
            for (kind, name), rules in table.items():
                if kind != resource:
                    continue
                for who in (principal, EVERYBODY):
                    for rule in rules.get(who, _NO_RULES).values():
                        if rule.operation not in (operation, ALL):
                            continue
                        if rule.host not in (host, WILDCARD) and not _is_in_network(host, rule.host):
                            continue
                        if rule.permission_type == DENY:
                            denied.add((rule.pattern_type, name))
                        else:
                            allowed.append((rule.pattern_type, name))
        if (LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(pattern, name, denied) for pattern, name in allowed)


def _is_in_network(host: str, text: str) -> bool:
    """Returns whether the host of a rule is a network with this host in it."""
    return "/" in text and is_in_network(host, text)


def _is_covered(pattern: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Returns whether a denial takes away all of what is allowed for a name or prefix."""
    if pattern == LITERAL:
        if name == WILDCARD:
            return False
        if (LITERAL, name) in denied:
            return True
    return any((PREFIXED, name[: end + 1]) in denied for end in range(len(name)))


class Rights:
    """Answers what one principal may do from one host, and keeps the answers. `Authorizer.rights` returns one."""

    __slots__ = ("_any", "_authorizer", "_may", "_since", "host", "is_super", "principal", "writable")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.principal = principal
        self.host = java_form(host)
        self.is_super = principal in authorizer.super_users
        self._authorizer = authorizer
        self._since = authorizer.times_forgotten
        self._may: dict[int, dict[str, bool]] = {}
        self.writable: Mapping[str, bool] = _NOTHING
        """The decisions about writing to topics, by their names. Produce looks here by itself."""
        self._any: dict[Need, bool] = {}

    def may(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Returns whether the principal may do an operation on a resource."""
        if self.is_super:
            return True
        key = resource << 8 | operation
        known = self._may.get(key)
        allowed = None if known is None else known.get(name)
        if allowed is None:
            allowed = self.decide(operation, resource, name).allowed
            if len(name) <= LONGEST_KEPT and name.isascii():
                self._keep(key, name, allowed)
        return allowed

    def _keep(self, key: int, name: str, allowed: bool) -> None:
        authorizer = self._authorizer
        if self._since != authorizer.times_forgotten:  # nobody would find these rights again, or count what they keep
            return
        if authorizer.kept >= MOST_KEPT:
            authorizer.forget()
            return
        authorizer.kept += 1
        known = self._may.setdefault(key, {})
        known[name] = allowed
        if key == _WRITE_TOPIC:
            self.writable = known

    def decide(self, operation: Operation, resource: Resource, name: str) -> Decision:
        """Returns whether the principal may do an operation on a resource, and why."""
        return self._authorizer.decide(self.principal, self.host, operation, resource, name)

    def may_any(self, operation: Operation, resource: Resource) -> bool:
        """Returns whether the principal may do an operation on any resource of a type."""
        need = Need(operation, resource)
        if need not in self._any:
            self._any[need] = self._authorizer.decide_any(self.principal, self.host, operation, resource)
        return self._any[need]

    def bits(self, supported: int, resource: Resource, name: str) -> int:
        """Returns those of the operations in the bit field `supported` that the principal may do on a resource."""
        if self.is_super:
            return supported
        return sum(1 << each for each in Operation if supported >> each & 1 and self.may(each, resource, name))


class Ask:
    """Answers what the client of one request may do. `quiet` questions, about what is only left out, are not in the audit log."""

    __slots__ = ("_api", "_audit", "rights")

    def __init__(self, rights: Rights, audit: Audit, api: str) -> None:
        self.rights = rights
        self._audit = audit
        self._api = api

    def may(self, operation: Operation, resource: Resource, name: str, *, quiet: bool = False) -> bool:
        allowed = self.rights.may(operation, resource, name)
        if allowed:
            self._audit.allowed += 1
        if not quiet and (not allowed or self._audit.notes_allowed):
            self._audit.note(self.rights, self._api, operation, resource, name, allowed=allowed)
        return allowed

    def topic(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.TOPIC, name, quiet=quiet)

    def group(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.GROUP, name, quiet=quiet)

    def transaction(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.TRANSACTIONAL_ID, name, quiet=quiet)

    def cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.CLUSTER, CLUSTER_NAME, quiet=quiet)
