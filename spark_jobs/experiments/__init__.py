"""Measurements that `freshet bench` makes; each says what it compares and how."""
