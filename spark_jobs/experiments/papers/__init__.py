"""`freshet bench papers`: figures of the papers on semi-stream joins and on sketches, beside what was published."""
