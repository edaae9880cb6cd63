"""Freshet: loads facts into a PostgreSQL warehouse seconds after they happen."""
