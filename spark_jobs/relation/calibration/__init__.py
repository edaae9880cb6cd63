"""What joining with R costs here and now: the constants of the cost models, measured.

| file | what it holds |
|---|---|
| median_of_means | the mean of noisy seconds |
| sample_reads | which pages and keys of R are read to find out |
| disk_calibration | c_I/O by page size, a lookup, a batch of lookups |
| processor_calibration | c_H, c_O, c_E, c_S, c_A and the front stage's probe, with the joins' own kernels |
| relation_costs | all of that for one relation |
| predicted_rates | what the cost models make of it |
| report | what `freshet calibrate` shows |
"""

from spark_jobs.relation.calibration.disk_calibration import DiskMeasurement, PageRead, measure_access, measure_disk
from spark_jobs.relation.calibration.processor_calibration import measure_processor

__all__ = ["DiskMeasurement", "PageRead", "measure_access", "measure_disk", "measure_processor"]
