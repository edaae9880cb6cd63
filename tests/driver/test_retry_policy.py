from spark_jobs.driver.retry_policy import LONGEST_OUTAGE_SECONDS, LONGEST_PAUSE_SECONDS, MOST_FAILURES, RetryPolicy
from spark_jobs.stages.failure_kind import FailureKind


def pauses(kind: FailureKind | None, tries: int, *, ends: bool = False) -> list[float | None]:
    retry_policy = RetryPolicy()
    return [retry_policy.pause(kind, 0.0, ends=ends) for _ in range(tries)]


def test_a_batch_that_fails_again_and_again_is_given_up() -> None:
    assert pauses(None, MOST_FAILURES) == [1, 2, 4, 8, None]


def test_a_blocked_stream_waits_for_ever_with_growing_pauses() -> None:
    waited = pauses(FailureKind.BLOCKED, 10_000)
    assert waited[:7] == [1, 2, 4, 8, 16, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    assert None not in waited


def test_a_blocked_stream_that_is_to_end_is_given_up() -> None:
    assert pauses(FailureKind.BLOCKED, MOST_FAILURES, ends=True)[-1] is None


def test_a_warehouse_that_is_away_is_waited_for_half_an_hour_and_another_one_after_it_was_back() -> None:
    retry_policy = RetryPolicy()
    assert retry_policy.pause(FailureKind.AWAY, 10.0, ends=True) is not None
    assert retry_policy.pause(FailureKind.AWAY, 10.0 + LONGEST_OUTAGE_SECONDS, ends=True) is not None
    retry_policy.forget()
    assert retry_policy.pause(FailureKind.AWAY, 20.0 + LONGEST_OUTAGE_SECONDS, ends=True) is not None
    assert retry_policy.pause(FailureKind.AWAY, 21.0 + 2 * LONGEST_OUTAGE_SECONDS, ends=True) is None


def test_failures_count_from_the_last_outage_on() -> None:
    retry_policy = RetryPolicy()
    for _ in range(100):
        retry_policy.pause(FailureKind.BLOCKED, 0.0, ends=False)
    assert [retry_policy.pause(None, 0.0, ends=False) for _ in range(MOST_FAILURES)] == [1, 2, 4, 8, None]
