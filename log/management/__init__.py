"""All partitions of a broker: opened, flushed, checkpointed, moved and closed together, over all its log directories."""
