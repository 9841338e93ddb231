"""`ottla log dump`: segments (`segment.py`) and the files beside them (`small_files.py`), with keys and values as text.

`schemas.py` decodes the records of Kafka's own topics, and `forms.py` those that belong to no schema.
"""
