"""A broker of Kafka of an installation's own: its jars (`jars.py`), and its process (`broker.py`)."""
