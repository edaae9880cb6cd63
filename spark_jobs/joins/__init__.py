"""The join algorithms. This room knows arrays and nothing else: no engine, no database, no network, no clock."""
