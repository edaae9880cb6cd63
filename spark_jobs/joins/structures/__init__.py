"""Arrays and compiled kernels of the joins: hash codes, keys, stream tuples by page and by key, pages, frequencies."""
