"""Semi-stream joins: one fast stream with a relation R too big for memory."""
