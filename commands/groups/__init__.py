"""`ottla group`, and what the console knows of groups: groups of every kind, with members, committed offsets and lag.

`states.py` puts together what a group is: many groups at once (`batched_requests.py`), and what librdkafka does not show
(`kinds.py`). `rows.py` turns that into rows, `reset.py` and `offsets.py` change it. Why a group is stuck is a room of its own,
../why.
"""
