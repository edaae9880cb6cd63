"""Alembic's entry point: runs the migrations on the connection that `freshet migrate` hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="schema_version", version_table_schema="freshet")
with context.begin_transaction():
    context.run_migrations()
