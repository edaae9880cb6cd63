"""Validation: are the facts that were loaded what they must be?

validate.py      validate_facts: one validation, from the choice of facts to its record, in one snapshot
selection.py     which facts a user asks for
window.py        which facts these are: loads of the ledger, the condition that finds their facts, which were late
fact_columns.py  what the catalogue says of the fact table
completeness.py  whether all event ids that arrived are stored, once, by sketches of both
stored_ids.py    event ids that are stored: all of some loads', or some looked up
expectations.py  what is expected of the facts: by the pipeline's definition, or because it follows from it
records.py       validations in the control schema: begun, closed, cut off
report.py        what came of it, in words and as JSON
process.py       the same as a process of its own, for Airflow's tasks; __main__.py: that process
gx/              Great Expectations: imported, for seconds, only when there is something to validate
"""
