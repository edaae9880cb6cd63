"""SQL that asks a stored definition for its pipeline's shape.

The spelling of the last version is asked for, too: it stays until a driver starts.
"""

from __future__ import annotations

ACCUMULATES = """(
    jsonb_typeof(definition -> 'accumulate') = 'object' OR definition -> 'correlate' ->> 'emit' = 'accumulate'
)"""
"""SQL condition on `definition` of freshet.pipeline: its facts are filled in part by part."""
