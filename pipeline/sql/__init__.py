"""What `ottla pipeline run JOB.sql` is made of (../run.py): the job's statements, its sources, sinks, checkpoint and progress."""
