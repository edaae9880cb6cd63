"""The operator that validates the facts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pydantic import ValidationError

from freshet_airflow import warehouse_connection
from freshet_airflow.form_refusal import form_refusal
from spark_jobs.errors import FreshetError, PlatformError, WarehouseUnavailableError
from spark_jobs.settings import home
from spark_jobs.validation.process import Request, ValidationProcess
from spark_jobs.validation.selection import Selection


class ValidateFactsOperator(BaseOperator):
    """Validates facts by the pipeline's expectations, in a process of its own that ends with the task.

    Which facts say the run's parameters: the fields of `Selection`, nulls where they say nothing. The task is skipped
    where there is nothing to look at; it fails, without another try, where facts are not what they must be. It is
    tried again where the warehouse is away.

    Args:
        pipeline: name of the pipeline.
        warehouse_conn_id: Airflow connection of the warehouse; where it is not defined, the loader's counts.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        warehouse_conn_id: str = warehouse_connection.VALIDATOR_CONNECTION_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.warehouse_conn_id = warehouse_conn_id
        self._process: ValidationProcess | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Validate; the result is what came of it, without the single findings."""
        selection = _selection(context["params"])
        url = warehouse_connection.warehouse_url(self.warehouse_conn_id)
        self._process = ValidationProcess(home(), url, self.log.info)
        try:
            report = self._process.run(
                Request(pipeline=self.pipeline, selection=selection, airflow_run=context["run_id"])
            )
        except (WarehouseUnavailableError, PlatformError):
            raise
        except FreshetError as error:
            raise AirflowFailException(str(error)) from error
        if report["result"] == "no data":
            raise AirflowSkipException(report["message"])
        if report["result"] != "passed":
            raise AirflowFailException(report["message"])
        self.log.info("%s", report["message"])
        return {key: value for key, value in report.items() if key != "findings"}

    def on_kill(self) -> None:
        """Take the process along."""
        if self._process is not None:
            self._process.end()


def _selection(params: Mapping[str, Any]) -> Selection:
    try:
        return Selection.model_validate(dict(params))
    except ValidationError as error:
        raise _refusal("; ".join(_problems(error))) from error
    except FreshetError as error:
        raise _refusal(str(error)) from error


def _refusal(problems: str) -> AirflowFailException:
    return form_refusal(
        f"{problems} Trigger the DAG again; a bound that is not wanted stays empty (null).", undone="validated"
    )


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        field = ".".join(map(str, problem["loc"]))
        said = problem["msg"].removeprefix("Value error, ")
        yield f"{field}: {said}" if field else said
