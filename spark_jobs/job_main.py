"""What the mains that spark-submit runs have in common: logging, the warehouse's URL, errors as an exit status."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable

from spark_jobs.errors import FreshetError
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE
from spark_jobs.shown_text import OneLineFormatter, shown_lines


def run_main(job: Callable[[str], object]) -> int:
    """Run a job; the exit status, 0 only if it raised nothing.

    Its output ends with the error; the lines of it are indented but for the first.

    The warehouse's URL is taken from the environment alone: a command line can be read by all.

    Args:
        job: takes the libpq URL of the warehouse.
    """
    log = logging.StreamHandler()
    log.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s [%(threadName)s] %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[log])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        warehouse_url = os.environ.get(WAREHOUSE_URL_VARIABLE)
        if not warehouse_url:
            raise FreshetError(f"{WAREHOUSE_URL_VARIABLE} is not set: set it to the libpq URL of the warehouse.")
        job(warehouse_url)
    except FreshetError as error:
        told = f"{type(error).__name__}: {error}"
    except Exception:
        told = traceback.format_exc().rstrip()
    else:
        return 0
    print(shown_lines(told).replace("\n", "\n    "), file=sys.stderr)
    return 1
