"""A seeded random walk of both brokers in lock-step: the same random but valid requests, and after each the answers compared.

A walk is a list of sessions, a session a list of steps, a step a name and plain arguments: `["produce", {"topic": "t1", ...}]`.
Steps name everything by role ("t1" is the session's topic of that name, "p0" a producer, "m1" a member of a group), and say
numbers relative to what a right client would send (`"sequence": 1` is one too high), so every list of steps can be played, also
a part of one: what does not exist is asked for all the same. That is what makes a difference easy to shrink.

- steps.py: the registry of steps, and how a session's steps are drawn from a seed;
- session.py: what a session knows of one broker: names, ids, epochs, sequences; how it waits for what a broker does on the side;
- topic_steps.py, log_steps.py, group_steps.py, member_steps.py, share_steps.py, txn_steps.py: the steps;
- lockstep.py: plays a session on both brokers and compares; shrinks a difference (delta debugging) and keeps it in kept/.

Nothing is left to time: a step that changes metadata ends when the broker's logs and coordinators have seen the change, one that
ends a transaction when its markers are written; a join that waits for others is read when its group is no longer rebalanced.
"""
