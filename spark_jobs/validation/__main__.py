"""One validation in a process of its own: what to do comes as JSON on its input, what came of it goes to its output.

Great Expectations loads a large part of Python's data world and changes how a process logs. Another program's
process, such as an Airflow task, lets this one do it. The warehouse's URL comes in the environment.
"""

from __future__ import annotations

import json
import logging
import os
import sys

from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError, WarehouseUnavailableError
from spark_jobs.launch.low_priority import yield_processor
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE, home
from spark_jobs.validation.process import Answer, Request
from spark_jobs.validation.validate import validate_facts


def _answer(request: Request) -> Answer:
    try:
        definition = load_definition(request.pipeline)
        report = validate_facts(
            definition,
            os.environ[WAREHOUSE_URL_VARIABLE],
            home(),
            request.selection,
            airflow_run=request.airflow_run,
        )
    except WarehouseUnavailableError as error:
        return Answer(unavailable=str(error))
    except FreshetError as error:
        return Answer(refused=str(error))
    return Answer(report=json.loads(json.dumps(report.to_json(), default=str)))


def main() -> None:
    """Read the request, validate, write the answer."""
    yield_processor()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anybody else prints is no part of the answer
    answer = _answer(Request.model_validate_json(sys.stdin.read()))
    output.write(answer.model_dump_json())
    output.flush()


if __name__ == "__main__":
    main()
