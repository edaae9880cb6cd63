"""The join algorithms. This room knows arrays and nothing else: no engine, no database, no network, no
clock. Of other rooms it uses the compiler of kernels and the hash codes of `columns`."""
