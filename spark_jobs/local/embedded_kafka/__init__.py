"""A broker of Kafka of an installation's own: its jars, and its process."""
