"""Where stream tuples come from: planned by the driver, read as bytes and decoded in the tasks, read again by proofs.

the kinds       kinds.py          the table of them; kind.py: what each has to do
                files/            landing folders
                kafka/            topics
                landed_source.py  what is new, and what is read next
                landed_streams.py several of them as one source, of several streams
                slices.py         what a task reads of one
                landed_units.py   what there is now, and what the ledger says of it, for the proof
in a task       slice_reading.py  a slice of any kind
                sparing.py        what came, but for records that end the processes that decode them
                held_records.py   payloads of held tuples, read back
the records     records/          bytes to arrow: one contract for all formats; formats.py is the table of them
                record_lines.py   lines: where a file can be cut, blocks, records
                arrivals.py       some records of a slice, decoded
for secrets     connections.py    users and passwords, as Airflow's connections
"""
