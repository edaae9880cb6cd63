"""`freshet bench pipelines`: many small pipelines in one driver.

small_pipelines.py      copies of the two shipped pipelines, their master data, fact tables and events
pipelines_benchmark.py  runs them, idle and with events, and tells what they take
"""
