"""Lookups: what a pipeline's streams are joined with, the relation R, and how its tuples come to those of the stream.

| file | what it holds |
|---|---|
| driven_lookups | the lookups of a pipeline, carried from batch to batch by its driver |
| front_stage, back_stage | a task's joins of stream tuples with R's hot tuples, and with its range of R |
| relation | R: described, read by page and by key, joined with the tuples that miss |
| hot_keys | R's most frequent tuples, which the front stage joins at once |
| local_copy | R in local files, as it was at one time |
| changes | changes of R, noted by triggers, read by all that keep tuples of it |
| planning | memory, pages, algorithm and costs of each lookup |
| lookup_folder | where its files lie |
"""
