"""SQL that asks a stored definition for its shape, in the last version's spelling, too: it stays until a driver starts.

Both take `definition` of freshet.pipeline.
"""

from __future__ import annotations

ACCUMULATES = """(
    jsonb_typeof(definition -> 'accumulate') = 'object' OR definition -> 'correlate' ->> 'emit' = 'accumulate'
)"""
"""SQL condition: its facts are filled in part by part."""
JOIN = """coalesce(
    definition -> 'join',
    CASE definition -> 'correlate' ->> 'emit' WHEN 'complete' THEN
        (definition -> 'correlate') || jsonb_build_object('window', definition -> 'correlate' -> 'within') END
)"""
"""SQL: its part `join`; null where it has none."""
