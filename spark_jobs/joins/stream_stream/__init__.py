"""Stream-stream joins: two or more streams with each other. The catalogue."""
