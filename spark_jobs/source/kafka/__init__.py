"""Topics of Kafka as a source: offsets that are new, read once and read again."""
