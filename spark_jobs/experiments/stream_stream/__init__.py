"""Runs of stream-stream joins: what the figures of the papers measure."""
