"""The schema as release 0.2.0 has it, made at once: a database of that release needs nothing of it.

Revision ID: 0030
"""

from pathlib import Path

from alembic import op

revision = "0030"
down_revision = None
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).resolve().parents[1] / "baseline"
# A file's tables refer only to those of files before it.
_FILES = ("pipelines", "ledger", "source_ranges", "held_tuples", "relation_changes", "operation", "star_schemas")


def upgrade() -> None:
    for name in _FILES:
        op.execute((_FOLDER / f"{name}.sql").read_text())
