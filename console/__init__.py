"""The console: pages to look at any Kafka cluster, and to change it, in a browser on this machine.

It is one more client, in a process of its own: what it asks of a cluster goes through the functions of `ottla.commands`, and no
broker loads it. HTML is made here and works without script; `command.py` is `ottla console`.

Read in this order: `security.py` (who gets in, and what every answer carries), `app.py` (from a request to a page, in a thread),
`ask.py` (what a page is given and what it returns), `source.py` (what is asked of the cluster), then any file in `pages/`.

Whatever is shown may come from a stranger: keys, values, headers, ids of clients and groups, settings. Templates escape it, and
`text.py` makes visible what cannot be seen; no code here makes markup of its own.
"""
