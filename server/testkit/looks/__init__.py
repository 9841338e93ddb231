"""What a test sees when it looks into its broker: topics, groups, transactions, connections, producers.

These modules read the broker's own state and change nothing; looks at groups first have
the coordinator take over what it leads by now. Their answers are what JSON can hold.
"""
