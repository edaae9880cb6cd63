"""Tests of the warehouse once more, on the oldest PostgreSQL that Freshet supports."""
