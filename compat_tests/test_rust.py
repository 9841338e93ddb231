"""Rust's rdkafka, which is librdkafka 2.12, through the program in compat_tests/rust. The jobs: client_jobs.py."""

from __future__ import annotations

from compat_tests.client_jobs import ClientJobs, raw, topic
from compat_tests.programs import RUST, Program

__all__ = ["raw", "topic"]  # fixtures


class TestRdkafka(ClientJobs):
    program = Program(RUST, "rdkafka")
    no_call = frozenset(
        {
            "alter_configs",
            "delete_offsets",
            "log_dirs",
            "elect_leaders",
            "list_reassignments",
            "describe_producers",
            "describe_quotas",
        }
    )
    reports_refused_settings = False  # its alter_configs drops the error of a resource
