"""The checker outside: real clients of three kinds work at a real broker while things break, and what they saw is checked for
anomalies by the rules that also judge the simulation (compat_tests/anomalies).

`faults.py` says what breaks and when, by a seed; `clients.py` is what a client of any kind does here, and `confluent_clients.py`,
`kafka_python_clients.py` and `aiokafka_clients.py` have the three kinds do it; `workers.py` and `transactions.py` are what they
are busy with; `stages.py` and `clusters.py` are where it happens, `clocks.py` what may be wrong there; `play.py` is a
whole run. `scripts/check_outside.py` plays as many as one likes.
"""
