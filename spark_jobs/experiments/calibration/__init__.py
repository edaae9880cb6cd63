"""What joining with R costs here and now: the constants of the cost models, measured.

| file | what it holds |
|---|---|
| disk_calibration | c_I/O by page size, a lookup, a batch of lookups, beyond what `relation.access_costs` measures |
| processor_calibration | c_H, c_O, c_E, c_S and c_A of HYBRIDJOIN and of MESHJOIN, with their own kernels |
| step_calibration | a step of a join, whatever it settles |
| front_stage_calibration | a front stage's probe, and its upkeep |
| relation_costs | all of that for one relation, and what the cost models make of it |
| calibration_report | what `freshet calibrate` shows |
"""
