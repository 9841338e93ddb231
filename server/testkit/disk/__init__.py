"""Disks for tests: one in memory whose power can be cut, and one that fails or is slow when a test says so."""
