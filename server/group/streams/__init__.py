"""Streams groups (KIP-1071): the coordinator knows an application's topology, and hands out its tasks."""
