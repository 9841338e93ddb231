"""The breaks of who may come in and do what: each has to be caught by a unit test, so that nobody need start a broker to find it.

Fields are those of table.py; `test` is below tests/ here. `python -m scripts.breaks --security` tries them.
"""

from __future__ import annotations

from typing import Final

from compat_tests.breaks.table import Break

_GUARDS: Final = "tests/server/guards/"
_SECURITY: Final = "tests/server/security/"
_MODEL: Final = _SECURITY + "test_authorizer.py::test_decisions_are_those_of_the_model"

SECURITY_BREAKS: Final = (
    # Rights
    Break(
        "a guard forgets a right",
        "ListOffsets needs DESCRIBE on each topic",
        "server/guards/records.py",
        "lambda topic: not ask.topic(Operation.DESCRIBE, topic.name))",
        "lambda topic: False)",
        _GUARDS + "test_cases.py::test_every_case",
    ),
    Break(
        "existence is told before rights",
        "who may not write to a topic does not learn whether it exists",
        "server/guards/records.py",
        "    return name is not None and not ask.topic(Operation.WRITE, name)",
        "    return name in request.broker.metadata.topics and not ask.topic(Operation.WRITE, name)",
        _GUARDS + "test_cases.py::test_every_case",
    ),
    Break(
        "an allowance wins over a denial",
        "among the rules that count, a denial wins, whichever is found first",
        "server/security/authorizer.py",
        "                        if rule.operation in (operation, ALL):\n                            return Decision(False",
        "                        if rule.operation in (operation, ALL) and allowed is None:\n"
        "                            return Decision(False",
        _MODEL,
    ),
    Break(
        "a prefix does not match itself",
        "a rule for a prefix is about the very name of the prefix, too",
        "server/security/authorizer.py",
        "lengths[: bisect_right(lengths, length)]",
        "lengths[: bisect_right(lengths, length - 1)]",
        _MODEL,
    ),
    Break(
        "a super user is one of many",
        "super users may do everything",
        "server/security/authorizer.py",
        "        if principal in self.super_users:\n            return",
        "        if False:\n            return",
        _SECURITY + "test_authorizer.py::test_reasons_name_the_rule",
    ),
    Break(
        "the host of a rule is ignored",
        "a rule is about one host, a network or all",
        "server/security/authorizer.py",
        "                    if rule.host not in (WILDCARD, host) and not _is_in_network(host, rule.host):\n",
        "                    if False:\n",
        _MODEL,
    ),
    Break(
        "a network is a host",
        "a rule for a network is about each address in it",
        "server/security/authorizer.py",
        '    return "/" in text and is_in_network(host, text)',
        "    return False",
        _SECURITY + "test_authorizer.py::test_networks_and_addresses_in_java_s_form",
    ),
    Break(
        "a decision outlives its rule",
        "a rule that is made or deleted counts at once",
        "server/security/authorizer.py",
        "            self._add(added)\n        self.forget()\n",
        "            self._add(added)\n",
        _SECURITY + "test_authorizer.py::test_decisions_follow_changes_of_rules",
    ),
    Break(
        "a replica's id is believed",
        "who says that it is a broker needs the right of one to fetch",
        "server/handlers/fetch.py",
        "            return ask.cluster(Operation.CLUSTER_ACTION)\n",
        "            return True\n",
        _GUARDS + "test_guards.py::test_a_replica_needs_no_right_to_the_topic_but_one_to_the_cluster",
    ),
    # Logins
    Break(
        "any password is right",
        "PLAIN compares passwords",
        "server/security/plain.py",
        "        if not right:\n",
        "        if False:\n",
        _SECURITY + "test_plain.py::test_a_wrong_password_and_a_wrong_name_look_the_same",
    ),
    Break(
        "a user logs in as another",
        "the name to act for is that of who proves to be somebody",
        "server/security/plain.py",
        '        if wanted not in ("", name):\n',
        "        if False:\n",
        _SECURITY + "test_plain.py::test_what_is_refused",
    ),
    Break(
        "the nonce of SCRAM is not compared",
        "the last message of SCRAM repeats the nonce of this login, so that none can be played again",
        "server/security/scram.py",
        '        if found["nonce"] != self._nonce:\n',
        "        if False:\n",
        _SECURITY + "test_scram.py::test_last_messages_that_are_wrong",
    ),
    Break(
        "the header of SCRAM is not compared",
        "the last message of SCRAM repeats the header of the first, so that nobody in between can change it",
        "server/security/scram.py",
        "        if binding != self._header.encode():\n",
        "        if False:\n",
        _SECURITY + "test_scram.py::test_last_messages_that_are_wrong",
    ),
    Break(
        "the broker need not know the password",
        "a client of SCRAM checks that the broker knows its credential",
        "security/sasl_client.py",
        "    if not hmac.compare_digest(verifier, expected):\n",
        "    if False:\n",
        "tests/security/test_sasl_client.py::test_a_broker_that_does_not_know_the_password",
    ),
    Break(
        "a token does not expire",
        "a delegation token that has expired logs nobody in",
        "server/security/credentials.py",
        "        if is_expired(token, self._clock.now_ms()):\n",
        "        if False:\n",
        _SECURITY + "test_credentials.py::test_a_token_that_is_gone_or_over_does_not_count",
    ),
    Break(
        "a renewal changes the user",
        "a login is renewed by the same user",
        "server/security/login.py",
        "and outcome.principal != self._previous.principal:",
        "and False:",
        _SECURITY + "test_login_lifetime.py::test_another_user_is_refused",
    ),
    Break(
        "a login that has ended goes on",
        "a client whose login has ended is closed with its next request",
        "server/security/login_lifetime.py",
        "        if now >= self._until:\n",
        "        if False:\n",
        _SECURITY + "test_login_lifetime.py::test_a_login_ends_with_the_next_request",
    ),
    Break(
        "long frames before a login",
        "before a login a frame has at most sasl.server.max.receive.size bytes",
        "server/security/login.py",
        "= login.serve, self.settings.max_login_bytes\n",
        "= login.serve, self.settings.max_request_bytes\n",
        _SECURITY + "test_login.py::test_a_long_frame_closes_before_it_has_come",
    ),
    Break(
        "one address takes all handshakes",
        "however many connections one address opens, another can begin its handshake",
        "server/network/handshake_turns.py",
        "if self._places[each] < OF_ONE_SOURCE)",
        "if self._places[each] < HANDSHAKES)",
        "tests/server/network/test_handshake_turns.py::test_one_source_never_has_all_places",
    ),
    Break(
        "a certificate is not asked for",
        "with ssl.client.auth=required nobody comes without a certificate that an authority in the truststore has signed",
        "server/security/tls.py",
        '    context.verify_mode = _VERIFY[security["ssl.client.auth"]]\n',
        "    context.verify_mode = ssl.CERT_NONE\n",
        "tests/server/network/test_tls_listener.py::test_whom_nobody_vouches_for",
    ),
)
