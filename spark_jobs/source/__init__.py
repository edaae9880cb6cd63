"""Where stream tuples come from, planned by the driver, read as bytes and decoded in the tasks: files, or Kafka.

on the driver   landed_files.py   what is new, in which order and which pieces
                landed_streams.py several of them as one source, of several streams
                kafka_topic.py    the same of a topic: by partition and offset
                kafka_offsets.py  what the brokers say of a topic's offsets
                after_load.py     archives or deletes what was loaded
in a task       slice_reading.py  a slice of either kind
                file_reading.py   a slice of a file to arrivals.py
                planned_file.py   the file, which must be the one that was planned
                held_records.py   payloads of held tuples, read back
                damage.py         whether a file is damaged, or the machine can't read it
                kafka_reading.py  a slice of a partition to arrivals.py
                records/          bytes to arrow: one contract for JSON, CSV, Parquet and Avro
both            connections.py    users and passwords, as Airflow's connections
                kafka_client.py   how Kafka's clients are set up, with the secrets of a connection
                kafka_consumer.py takes records as one block of bytes, by librdkafka's own functions
                kafka_slice.py    partitions, as the ledger names them, and pieces of them
                file_names.py     what a file's name says, and how the ledger writes it
                record_lines.py   lines: where a file can be cut, blocks, records
"""
