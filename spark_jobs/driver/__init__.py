"""The driver of a stream: the loop that plans batches, runs them on Spark and keeps the ledger."""
