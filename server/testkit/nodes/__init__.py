"""The nodes of a cluster that one broker simulates: who leads, what each node refuses, and what is its own."""
