"""The console's knowledge of a cluster, gained by the functions of the everyday commands, and what it changes in it."""
