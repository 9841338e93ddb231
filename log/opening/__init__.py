"""Opens partitions from their directories: recovery after a crash, torn tails, damage, interrupted work."""
