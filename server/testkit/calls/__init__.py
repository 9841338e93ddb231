"""Calls that a test may make to the kit: one table of functions (`control.py`), and the functions by subject."""
