"""What measures, rather than loads: it may import everything, and nothing but `cli` imports it.

kernels/  load/  correlate/  pipelines/  papers/
                           what `freshet bench` measures; each says what it compares and how
bench_server.py            a PostgreSQL server of a benchmark's own, and contenders that run against it
freshness_at_rate.py       how fresh facts are while events land at a rate
semi_stream/               runs of the joins with R that the figures are made of
stream_stream/             runs of the joins of streams
numbered_relation.py       what the figures need of R, and PostgreSQL's tables as such
virtual_relation.py        R on a disk that charges a virtual clock: the same figures on every machine
virtual_spill.py           extents on a disk that exists on paper alone
direct_file/               R as a local file, read past the operating system's cache
calibration/               what reading R and joining with it cost on this machine: `freshet calibrate`
"""
