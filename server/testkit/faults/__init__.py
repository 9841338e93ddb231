"""Faults on demand: a test installs them, and each is carried out on the requests that it is for.

`selectors.py` says which requests those are, `actions.py` what becomes of them; `frames.py` and `faults.py` are the two layers
around a broker's requests that look for them.
"""
