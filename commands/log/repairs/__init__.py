"""The repairs of `ottla log repair`: durable steps, each announced before it is carried out. `restore.py` undoes what a start
cut."""
