"""Retention: what is pruned (pruning.py), and how that walks through large tables (walk.py)."""
