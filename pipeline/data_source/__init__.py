"""What `format("ottla")` is made of (../source.py): a query is planned, and its tasks read slices of segments, without a broker.

`options.py` reads the options, `replicas.py` chooses among the copies of a partition, `readers.py` plans, with what `filters.py`
pushes down and `limits.py` and `admission.py` admit to a micro-batch. `segments.py` finds the slices of a log, and `columns.py`
reads one into columns. `seen.py` remembers opened partitions, and `disk.py` opens files without a lock.
"""
