"""The kinds of sources, as definitions have them: one table. How each is read says `spark_jobs.source.kinds`.

A source has the key of exactly one kind. `base.py` says what a kind has to tell.
`files.py` and `kafka.py` tell it.
"""

from spark_jobs.definition.kinds.base import Bearer, KindFacts
from spark_jobs.definition.kinds.files import FILES
from spark_jobs.definition.kinds.kafka import KAFKA

KINDS: dict[str, KindFacts] = {kind.name: kind for kind in (FILES, KAFKA)}
"""Name -> the kind, in the order of the reference."""

__all__ = ["KINDS", "Bearer", "KindFacts"]
