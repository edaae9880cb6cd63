"""Workloads: TPC-H master data and orders, Zipf popularity, bursty self-similar arrivals, bad input."""
