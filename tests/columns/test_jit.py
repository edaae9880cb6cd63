"""The rules that keep cached kernels right, and the one version of them that serves all arrays."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import spark_jobs
from spark_jobs.columns.jit import read_only

PRODUCT = Path(spark_jobs.__file__).parent
FROZEN = {"mix", "foreign_call"}


def is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id in {"kernel", "kernel_part"}
        for decorator in node.decorator_list
    )


def imported_from_product(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("spark_jobs")
        for alias in node.names
    }


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PRODUCT.rglob("*.py")) if any(map(is_kernel, ast.parse(path.read_text()).body))],
    ids=lambda path: str(path.relative_to(PRODUCT)),
)
def test_a_kernel_uses_nothing_of_another_file_for_its_cache_would_not_notice_a_change(path: Path) -> None:
    tree = ast.parse(path.read_text())
    foreign = imported_from_product(tree) - FROZEN
    for kernel in filter(is_kernel, tree.body):
        assert isinstance(kernel, ast.FunctionDef)
        for statement in kernel.body:
            used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            assert not used & foreign, kernel.name


def test_read_only_shares_the_values_and_leaves_the_array_as_it_is() -> None:
    values = np.arange(3)
    view = read_only(values)
    assert np.shares_memory(view, values)
    assert values.flags.writeable
    assert not view.flags.writeable
    assert read_only(view) is view
