"""The test kit: what a test wants from a broker and cannot get from a real one, such as faults on demand.

A broker loads none of it unless it is told to serve a test (`ottla serve --test-port`, `ottla.testing`). Then a Kit (kit.py) is
put around its requests, and stays when the broker is started anew. What a test may do is one table of functions
(calls/control.py), which HTTP (port.py) and Python (python/, for `ottla.testing.Broker`) both call.
"""
