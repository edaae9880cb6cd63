"""`freshet bench load`: the same events, the same R, the same machine; Freshet beside what else would load them."""
