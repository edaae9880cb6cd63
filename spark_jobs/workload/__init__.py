"""Workloads: TPC-H master data and orders, what follows an order, Nexmark's auctions, bursty arrivals, bad input.

tpch.py  tpch_files.py                             master data, generated and loaded
order_stream.py  order_source.py  order_events.py  orders and their lines, landing as they are due
fulfilment.py                                      payments and shipments that follow the orders
auction_stream.py  nexmark.py                      persons, auctions and bids
pace.py  rates.py  bursts.py  zipf.py              when, how many, with which keys
transit.py  bad_input.py                           how far out of order, and with which defects
landing.py  topics.py                              files that land whole; topics, record by record
workload_state.py  stop_signal.py                  where a stream goes on; a signal to end
draws.py                                           random numbers by the number of an event
"""
