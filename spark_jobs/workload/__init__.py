"""Workloads: TPC-H master data and orders, Zipf popularity, bursty self-similar arrivals, bad input.

tpch.py  tpch_files.py                             master data, generated and loaded
order_stream.py  order_source.py  order_events.py  orders and their lines, landing as they are due
rates.py  bursts.py  zipf.py  bad_input.py         how many, when, with which keys, and with which defects
landing.py  workload_state.py  stop_signal.py      files that land whole; where a stream goes on; a signal to end
"""
