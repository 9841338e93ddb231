"""Threads for what waits: pages, streams of events, and answers that are kept for a moment."""
