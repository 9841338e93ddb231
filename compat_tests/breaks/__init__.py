"""Deliberate breaks: does the suite find, by name, what it promises to find?

`table.py` holds the breaks as data; `scripts/breaks.py` puts each into a private copy of the tree, runs the test that must catch
it against the copy, and prints a table. tests/scripts/test_breaks.py checks that every one of them still applies.
"""
