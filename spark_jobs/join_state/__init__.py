"""State that outlives a process: what a join of streams holds, in files.

| file | what it holds |
|---|---|
| bucket | a hash bucket of correlated streams: takes tuples, gives joined, late and expired ones, makes versions |
| correlated | its plan, and the pieces that a take gives |
| stored_bucket | a version as it lies in its folder, to be read beside the process that writes |
| stream_tuples, segment | the tuples of one stream, in files that never change |
| punctuated_keys | what punctuations have said of a stream's keys, in segments of its own |
| sorted_join | joins by the sorted keys of segments, for what memory does not hold |
| joined_tuples | the tuples of all streams side by side |
| state_folder | versions, their records, and the lock of the process that writes |
| spill_files | the disk that an operator may spill to |

`joins` itself opens no file.
"""
