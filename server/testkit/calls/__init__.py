"""What a test may ask of the kit: one table of functions (`control.py`), and the functions by subject."""
