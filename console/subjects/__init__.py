"""Questions that the console asks of a cluster, and changes that it makes, beyond topics and groups: one subject a file.

Each function is given the `Source`, and goes through the functions of `ottla.commands` or the requests of its connections. What a
cluster does not have, or does not tell this client, is a sentence and no error: `absent.py`.
"""
