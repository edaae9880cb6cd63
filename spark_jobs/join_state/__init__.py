"""State that outlives a process: what a join of streams holds, in files.

`spill_files` is the disk that joins spill to, `durable_join` brings an operator back to any version that was
checkpointed. `joins` itself opens no file.
"""
