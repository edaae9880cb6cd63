"""The hot tuples of a lookup's front stage on disk: versioned, checksummed, replaced in one step.

A driver writes down what it has learned, now and then and at its end; the rebuild job reads it, takes the tuples
anew from R, and writes a version of its own, which the running driver takes over between two batches. A driver that
starts begins with the newest sound version.

| file | what it holds |
|---|---|
| cache_version | CacheVersion: hot tuples with the frequencies they were found with |
| file_format | what stands in a file; `files.checked` says how damage is found |
| store | CacheStore: the versions of one lookup, in one folder |
| lookup_folder | which folder that is |
"""

from spark_jobs.hot_set.cache_files.cache_version import CacheVersion, Origin
from spark_jobs.hot_set.cache_files.lookup_folder import LookupFolder, lookup_folder, remove_unused
from spark_jobs.hot_set.cache_files.store import CacheStore

__all__ = ["CacheStore", "CacheVersion", "LookupFolder", "Origin", "lookup_folder", "remove_unused"]
