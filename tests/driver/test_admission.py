from datetime import timedelta

from spark_jobs.driver.admission import MEBIBYTE, Admission


def test_a_stream_slower_than_the_limit_changes_nothing() -> None:
    admission = Admission(timedelta(seconds=5), 100 * MEBIBYTE)
    for _ in range(20):
        admission.observe(MEBIBYTE, 0.2)
    assert admission.batch_bytes == 100 * MEBIBYTE


def test_a_backlog_that_is_loaded_quickly_raises_the_limit_step_by_step() -> None:
    admission = Admission(timedelta(seconds=5), 10 * MEBIBYTE)
    limits = []
    for _ in range(4):
        limits.append(admission.batch_bytes)
        admission.observe(admission.batch_bytes, admission.batch_bytes / (20 * MEBIBYTE))
    assert limits == [10 * MEBIBYTE, 20 * MEBIBYTE, 40 * MEBIBYTE, 50 * MEBIBYTE]  # half of the target at that rate


def test_batches_that_take_too_long_lower_it() -> None:
    admission = Admission(timedelta(seconds=5), 100 * MEBIBYTE)
    admission.observe(100 * MEBIBYTE, 25)
    assert admission.batch_bytes == 10 * MEBIBYTE


def test_it_stays_within_bounds() -> None:
    admission = Admission(timedelta(seconds=5), Admission.LARGEST)
    admission.observe(Admission.LARGEST, 0.1)
    assert admission.batch_bytes == Admission.LARGEST
    admission.observe(10, 1000)
    admission.observe(10, 1000)
    admission.observe(10, 1000)
    assert admission.batch_bytes == Admission.SMALLEST


def test_one_slow_batch_among_quick_ones_is_no_reason() -> None:
    admission = Admission(timedelta(seconds=5), 10 * MEBIBYTE)
    for seconds in (2.5, 2.5, 30.0, 2.5):
        admission.observe(10 * MEBIBYTE, seconds)
        assert admission.batch_bytes == 10 * MEBIBYTE


def test_files_of_more_than_half_a_batch_do_not_keep_batches_at_one_file() -> None:
    admission = Admission(timedelta(seconds=5))
    file = int(0.6 * admission.batch_bytes)
    for _ in range(4):
        admission.observe(admission.batch_bytes // file * file, 0.25)
    assert admission.batch_bytes > 4 * file
