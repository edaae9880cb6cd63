"""Figures of 001, first part: skimmed sketches."""
