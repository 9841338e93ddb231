"""Node's clients: kafkajs and @platformatic/kafka, through the program in compat_tests/node. The jobs: client_jobs.py."""

from __future__ import annotations

from compat_tests.client_jobs import ClientJobs, raw, topic
from compat_tests.programs import NODE, Program

__all__ = ["raw", "topic"]  # fixtures


class TestKafkaJs(ClientJobs):
    program = Program(NODE, "kafkajs")
    null_header = False
    no_call = frozenset({"alter_configs", "delete_offsets", "log_dirs", "elect_leaders", "describe_producers", "describe_quotas"})


class TestPlatformatic(ClientJobs):
    program = Program(NODE, "platformatic")
    offsets_in_transactions = False
    no_call = frozenset({"elect_leaders", "list_reassignments", "describe_producers"})
