"""Kafka's own integration tests (clients, tools, Streams; 4.3.1), run against ottla and against Apache Kafka 4.4.0.

The tests are compiled classes from Maven, written against Kafka's interface ClusterInstance. `java/` holds what stands behind it
in place of Kafka's in-JVM cluster: a broker in a process of its own, made anew for each test with that test's settings, which
`keeper.py` starts and ends on request. `runner.py` runs classes in a JVM and collects what became of each case;
`cases.json` is the denominator: every case, and why it is out where it is; `scripts/kafka_tests.py` runs all and writes results.
"""
