"""Topics of Kafka as a source.

kind.py          what the other rooms ask
on the driver    topic.py       what is new of each partition, and what is read next
                 offsets.py     what the brokers say of a topic's offsets
in a task        reading.py     a slice of a partition to arrivals
                 consumer.py    takes records as one block of bytes, by librdkafka's own functions
for the proof    landing.py     what the topic still holds, and what the ledger says of it
all              client.py      how clients are set up, with the secrets of a connection
                 partition.py   partitions, as the ledger names them, and pieces of them
"""
