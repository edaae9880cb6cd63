"""A relation of PostgreSQL as it was at one time, in local files: any key, any columns, page by page.

For production; the copies next door (`relation.copy`) hold made-up tuples of fixed size for experiments, and
are read past the operating system's cache. These are meant to be served from it.

    <folder>/0000000007/manifest       what the version holds: fences, place and checksum of each page
    <folder>/0000000007/part-00003...  pages of a range of R's keys, written by one task
    <folder>/building/                 the next version, until its manifest is written: then it is renamed

| file | what it holds |
|---|---|
| manifest | CopyManifest: what is known of a version before any page is read |
| page_files | pages written to parts, and read from them |
| part | PartTask: reads one part from PostgreSQL and writes it |
| build | build_copy: a whole version, its parts in parallel |
| store | CopyStore: the versions of one relation; a new one takes the old one's place at once |
| relation | LocalCopy: a version as the joins see it; a damaged page is read from PostgreSQL instead |
| changed | ChangedCopy: tuples that have changed since are read from PostgreSQL |
"""
