"""The parts of `ottla pipeline run JOB.sql` (../run.py): the job's statements, its sources, sinks, checkpoint and progress."""
