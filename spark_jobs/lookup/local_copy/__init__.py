"""A relation of PostgreSQL as it was at one time, in local files: any key, any columns, page by page.

They are meant to be served from the operating system's cache; the files of `experiments.direct_file` hold made-up
tuples of fixed size, and are read past it.

    <folder>/0000000007/manifest       what the version holds: fences, place and checksum of each page
    <folder>/0000000007/part-00003...  pages of a range of R's keys, written by one task
    <folder>/building/                 the next version, until its manifest is written: then it is renamed

| file | what it holds |
|---|---|
| copy_files | CopyManifest, which is known before any page is read, and the pages in their parts |
| build | build_copy: a whole version, its parts in parallel, each read from PostgreSQL by a PartTask |
| store | CopyStore: the versions of one relation; a new one takes the old one's place at once |
| local_copy | LocalCopy: a version as the joins see it; a damaged page is read from PostgreSQL instead |
| | ChangedCopy: tuples that have changed since are read from PostgreSQL, too |
"""
