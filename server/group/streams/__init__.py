"""Streams groups (KIP-1071): the coordinator knows an application's topology and assigns its tasks to members."""
