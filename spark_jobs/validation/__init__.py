"""Validation: are the facts that were loaded what they must be?

validate.py      validate_facts: one validation, from the choice of facts to its record
selection.py     which facts somebody asks for
window.py        which facts these are: the loads of the ledger, and the condition that finds their facts
fact_columns.py  what the catalogue says of the fact table
defaults.py      expectations that follow from the pipeline itself
patterns.py      whether PostgreSQL takes the regular expressions of `matches`
reading.py       one read-only snapshot of the warehouse, in which a whole validation looks
records.py       validations in the control schema: begun, closed, cut off
report.py        what came of it, in words and as JSON
__main__.py      the same as a process of its own, for Airflow's tasks
gx/              Great Expectations: imported, for seconds, only when there is something to validate
"""
