"""The join algorithms. This room knows arrays and nothing else: no engine, no database, no network, no
clock. Of other rooms it uses the compiler of kernels and the hash codes of `columns`.

semi_stream/      a stream with a relation R; stream_stream/: streams with each other
structures/       their arrays and kernels
memory_budget.py  what a join needs whatever comes, and how many tuples may wait
"""
