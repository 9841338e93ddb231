"""The data pipeline on Spark: topics as tables. It needs the extra `spark`; the broker loads nothing of it."""
