"""The search for the reason why a group is stuck: facts are gathered (`gathering.py`, `inside.py`), and a table of rules gives
the verdict (`verdicts.py`).

`facts.py` says what can be known. The console shows the verdict as a page, and `ottla group why` as lines.
"""
