"""Looks into a running broker: its topics, groups, transactions, connections, and what its requests do.

These modules read the broker's own state and change nothing, but for watches (group_watch.py, request_watch.py), which stand
around the requests while somebody looks; looks at groups first have the coordinator take over what it leads by now. Their
answers are what JSON can hold. The test kit gives them to tests, and `questions.py` to the console that a broker runs. A broker
loads none of it before it is asked.
"""
