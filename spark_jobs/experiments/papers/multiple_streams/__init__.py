"""Figures of 002: AMJoin beside MJoin."""
