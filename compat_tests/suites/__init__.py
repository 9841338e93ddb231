"""Integration tests that client libraries wrote for themselves, run unchanged against ottla and against Apache Kafka.

`sources.py` fetches a library's source distribution by pip; `kafka_python.py` is a pytest plugin that stands in for the parts of
its test harness that are not in the distribution; `runner.py` runs a suite in a pytest of its own; `cases.json` is the
denominator: every case that Apache Kafka passes through this harness, and every other with the reason why it is out.
compat_tests/test_client_suites.py has a test for each case.

aiokafka's are another matter: the source distributions of 0.7 to 0.14 hold no tests at all (its MANIFEST.in leaves them out), and
CI fetches by pip only. `aiokafka.py` runs them from a checkout, with `fake_docker.py` in front, and keeps what became of them for
the report; in CI compat_tests/test_aiokafka.py stands for the client.
"""
