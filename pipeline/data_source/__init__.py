"""The parts of `format("ottla")` (../source.py): a query is planned, and its tasks read slices of segments, without a broker.

`options.py` reads the options, `replicas.py` chooses among the copies of a partition, `readers.py` plans, with what `filters.py`
pushes down and `limits.py` and `admission.py` admit to a micro-batch. `segments.py` finds the slices of a log, on a disk that
changes nothing (`disk.py`), and `columns.py` reads a slice into columns. `seen.py` remembers opened partitions, and `worker.py`
makes a Spark worker's next task cheap.
"""
