"""The broker that runs the console: its inside, and its test kit."""
