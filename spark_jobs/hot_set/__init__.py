"""The hot set: the tuples of R that streams ask for most, built, published to the tasks, watched for changes, rebuilt.

front_stage/     learned, kept in files, published to the tasks
watch/           changes of R, and how they reach the front stages
cache_files/     versioned files that a rebuild writes and a running job takes up
cache_rebuild.py the job that rebuilds caches
"""
