"""The warehouse: loading protocol (COPY, epochs, batch ledger, held tuples), status and proof."""
