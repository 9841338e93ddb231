"""What the console knows of a cluster, by the functions of the everyday commands, and what it changes in it."""
