"""The part of the console that is in the broker: a port, behind which a process of its own starts with the first request.

The broker binds the port and watches it (port.py). With the first connection it starts `ottla.console.activated`, lends it the
socket that listens, and answers its questions over another one (channel.py, server/inspect). When nobody has looked for a while,
the process ends and the broker watches again. None of it is loaded without a port.
"""
