"""Pipelines: what one is (definition), and the Spark plan that takes a tuple from its source to its fact."""
