"""Go's clients: franz-go, IBM sarama and segmentio/kafka-go, through the program in compat_tests/go. The jobs: client_jobs.py."""

from __future__ import annotations

from compat_tests.client_jobs import ClientJobs, raw, topic
from compat_tests.programs import GO, Program

__all__ = ["raw", "topic"]  # fixtures


class TestFranz(ClientJobs):
    program = Program(GO, "franz")
    offsets_in_transactions = False


class TestSarama(ClientJobs):
    program = Program(GO, "sarama")
    no_call = frozenset({"describe_producers"})


class TestKafkaGo(ClientJobs):
    program = Program(GO, "kafka-go")
    idempotent = False
    transactions = False
    reads_committed = False  # its reader hands on the markers as records, and what was aborted
    empty_reads_as = None
    no_call = frozenset({"delete_records", "log_dirs", "describe_producers", "describe_quotas"})
