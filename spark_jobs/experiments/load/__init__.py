"""`freshet bench load`: the same events, the same R, the same machine; Freshet beside what else would load them.

load_benchmark.py                              runs the contenders in turn; contender_run.py: one run, as a process
contenders.py                                  who is compared, and what each needs
freshet_join.py  spark_join.py  copy_limit.py  contenders; scripts/: those that one would write instead
case.py                                        how large R is, what is fetched of it, the memory, what else happens
data.py                                        R, the events, the fact table
event_forms.py  kafka_connect.py               the events as JSON, Avro and topics; what upserts such topics
fact_check.py                                  whether a run has stored the right facts
run_result.py                                  what a run gives, and takes of the machine
README.md                                      how each contender is set up; Flink's configuration and figures
"""
