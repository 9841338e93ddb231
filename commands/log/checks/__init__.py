"""The checks of `ottla log verify`: a data directory, its partitions, their segments. Nothing is changed, and no file is trusted.

`findings.py` says what a finding is: a place, what is wrong there, and the remedy that ../repairs may carry out.
"""
