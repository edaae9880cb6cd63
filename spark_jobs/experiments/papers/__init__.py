"""`freshet bench papers`: every figure of the papers on semi-stream joins, measured beside what they published."""
