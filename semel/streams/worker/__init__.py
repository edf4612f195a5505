"""A worker of streams: a member of the group, with its tasks and one transaction for all of them.

=================  ===================================================================================================
``worker``         polls, runs the tasks, commits
``inputs``         the topics that it reads, those among them that patterns find
``task``           one sub-topology for one partition, with its state
``task_manager``   the tasks that it has: they are opened, restored beside those that run, and closed
``task_assignor``  which member of the group gets which tasks
``blocks``         rows of several inputs, cut into pieces of one topic
``meeting``        rows of several inputs, put in order where they meet
``pace``           how many rows a sub-topology gets at a time
``bad_records``    records that cannot be read, worked on or written
``processes``      workers as processes of this machine
``executors``      workers as processes on Spark executors
=================  ===================================================================================================
"""
