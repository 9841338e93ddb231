"""`ottla pipeline`: the command line of the jobs in `ottla.pipeline`, which is loaded, with Spark, only when one of them runs.

`frame.py` has what the commands share, and `gaps.py` asks the cluster itself what an audit needs to know.
"""
