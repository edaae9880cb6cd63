"""The warehouse's schema as Alembic migrations."""
