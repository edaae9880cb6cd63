from datetime import timedelta

from spark_jobs.driver.admission import MEBIBYTE, Admission


def test_a_stream_slower_than_the_limit_changes_nothing() -> None:
    admission = Admission(timedelta(seconds=5), 100 * MEBIBYTE)
    for _ in range(20):
        admission.observe(MEBIBYTE, 0.2)
    assert not admission.revise()


def test_a_backlog_that_is_loaded_quickly_raises_the_limit() -> None:
    admission = Admission(timedelta(seconds=5), 10 * MEBIBYTE)
    for _ in range(4):
        admission.observe(10 * MEBIBYTE, 0.5)
    assert admission.revise()
    assert admission.batch_bytes == 50 * MEBIBYTE  # half of the target at that rate


def test_batches_that_take_too_long_lower_it() -> None:
    admission = Admission(timedelta(seconds=5), 100 * MEBIBYTE)
    for _ in range(4):
        admission.observe(100 * MEBIBYTE, 25)
    assert admission.revise()
    assert admission.batch_bytes == 10 * MEBIBYTE


def test_one_slow_batch_among_quick_ones_is_no_reason() -> None:
    admission = Admission(timedelta(seconds=5), 10 * MEBIBYTE)
    for seconds in (2.5, 2.4, 30.0, 2.6):
        admission.observe(10 * MEBIBYTE, seconds)
    assert not admission.revise()
