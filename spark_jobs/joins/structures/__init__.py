"""Arrays and compiled kernels of the joins: hash codes, key table, waiting tuples, page probe, frequencies."""
