"""The data pipeline on Spark: topics as tables. Extra: `pip install ottla[spark]`; nothing here is loaded by the broker."""
