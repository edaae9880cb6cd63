"""The main that spark-submit runs for a pipeline of several streams: `correlate_streams.py PIPELINE [--once]`."""

from __future__ import annotations

import sys

from spark_jobs.stream_load import main

if __name__ == "__main__":
    sys.exit(main(description=__doc__))
