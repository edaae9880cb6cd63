"""The ledger of batches: its rows (batch_ledger.py), and sums of them by pipeline, by minute and by span of time."""
