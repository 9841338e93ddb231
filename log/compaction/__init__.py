"""Compaction: chooses a log, copies it without what newer records made obsolete, and puts the copy in its place."""
