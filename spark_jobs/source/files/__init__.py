"""Landing folders as a source: what has landed, read once and read again."""
