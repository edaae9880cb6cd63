"""Where stream tuples come from: landed files, planned by the driver, read as bytes and decoded in the tasks.

on the driver   files.py  ranges.py         what is new, in which order and which pieces; what becomes of it
                record_lines.py             where a large file may be cut
                loaded_files.py             archived or deleted after it was loaded
in a task       slices.py  file_reading.py  a slice of a file to arrivals.py
                file_content.py  line_files.py  checked_whole.py
                records/                    bytes to arrow: one contract for JSON, CSV and Parquet
"""
