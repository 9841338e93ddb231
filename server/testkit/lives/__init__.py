"""The lives of a broker under test: it is restarted, emptied, saved and put back, and its clock is moved."""
