"""The data pipeline on Spark: topics as tables. It needs `pip install ottla[spark]`; the broker loads nothing of it."""
