"""Everything that a log asks of a disk: files, checkpoints, log directories and how they fail."""
