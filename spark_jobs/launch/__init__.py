"""Starting processes that outlive those who start them, and finding them again.

detached_driver.py    Spark drivers that outlive Airflow's tasks
session_process.py    processes that can be found again and ended whole
low_priority.py       batch jobs let the streams go first
kept_bytecode.py      compiled modules are kept for the next process
"""
