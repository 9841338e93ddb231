"""The data pipeline on Spark: topics as tables. It needs the extra `spark`; the broker loads nothing of it.

Here are what a job in Python imports (`session.py`, `source.py`) and the jobs of the command line: `archive`, `replay`, `audit`
with `compare`, `run`. `data_source` and `sql` are what the source and a job of `run` are made of.
"""
