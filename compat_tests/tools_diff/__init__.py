"""The command-line tools of Apache Kafka 4.3.1, said twice: to ottla and to Apache Kafka. The difference is the test.

These are the tools that speak to a broker or read its files; site.py says of each other main class why it is not among them.

A script (script.py; the tables are scripts_*.py) is a list of steps, mostly tools with their arguments as one types them. Both
brokers take the steps at the same time, each with tools in a JVM of its own (compat_tests/java/Tools.java). What the tools print,
stream by stream, with the exit codes, is a transcript. masks.py takes out of it what no two brokers can have in common: ids,
times, ports, directories, and figures of speed, each for a reason that stands there. The rest must be equal, line by line.

Topics and groups have fixed names, each script its own: what a listing shows depends on the scripts before it in the same way on
both sides, and a column is as wide. `OTTLA_TOOLS_PAIR=kafka,kafka` compares two fresh Kafkas, which proves the masks: a script
that differs there asks what nobody promised.
"""
