"""What joining with R costs here and now: the constants of the cost models, measured.

| file | what it holds |
|---|---|
| disk_calibration | c_I/O by page size, a lookup, a batch of lookups, beyond what `relation.access_costs` measures |
| processor_calibration | c_H, c_O, c_E, c_S and c_A of HYBRIDJOIN with its own kernels, and all of the following |
| multimap_calibration | the same of MESHJOIN |
| step_calibration | a step of a join, whatever it settles |
| front_stage_calibration | a front stage's probe, and its upkeep |
| front_stage_at_work | a join with a front stage, timed apart from its back stage |
| relation_in_memory | an R that costs hardly anything to read |
| displaced_caches | the processor's caches as after a read |
| relation_costs | all of that for one relation |
| predicted_rates | what the cost models make of it |
| lookups, report | what `freshet calibrate` measures and shows |
"""

from spark_jobs.experiments.calibration.disk_calibration import DiskMeasurement, measure_disk
from spark_jobs.experiments.calibration.processor_calibration import measure_processor

__all__ = ["DiskMeasurement", "measure_disk", "measure_processor"]
