"""What is done about a time that has come, or gone by: at most one run is caught up, and none is run twice. T03."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.jobs.misfires import MISSED_MAX, MisfireDecision, decide, next_due
from tidegate.jobs.schedule import Once, read_schedule

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
DAILY = read_schedule("0 9 * * *", "UTC")
MINUTELY = read_schedule("* * * * *", "UTC")


def test_before_its_time_it_waits() -> None:
    assert decide(DAILY, NINE, NINE - timedelta(microseconds=1), misfire_grace=HOUR, done=()) == MisfireDecision(
        False, NINE
    )


def test_t03_at_its_time_and_up_to_the_grace_period_later_it_starts() -> None:
    for late in (timedelta(), timedelta(seconds=3), HOUR):
        assert decide(DAILY, NINE, NINE + late, misfire_grace=HOUR, done=()) == MisfireDecision(True, NINE)


def test_t03_later_it_is_missed_and_the_next_time_is_right() -> None:
    late = NINE + HOUR + timedelta(microseconds=1)
    assert decide(DAILY, NINE, late, misfire_grace=HOUR, done=()) == MisfireDecision(False, NINE + DAY, missed=1)


def test_t03_after_three_days_of_sleep_what_was_missed_is_counted() -> None:
    assert decide(DAILY, NINE, NINE + 3 * DAY - MINUTE, misfire_grace=HOUR, done=()) == MisfireDecision(
        False, NINE + 3 * DAY, 3
    )
    assert decide(DAILY, NINE, NINE + 3 * DAY + MINUTE, misfire_grace=HOUR, done=()) == MisfireDecision(
        True, NINE + 3 * DAY, 3
    )


def test_of_many_times_that_passed_the_last_is_caught_up_and_no_other() -> None:
    assert decide(MINUTELY, NINE, NINE + 10 * MINUTE, misfire_grace=HOUR, done=()) == MisfireDecision(
        True, NINE + 10 * MINUTE, 10
    )


def test_ten_years_of_sleep_take_no_time_to_judge() -> None:
    verdict = decide(MINUTELY, NINE, NINE + 3652 * DAY, misfire_grace=HOUR, done=())
    assert verdict == MisfireDecision(True, NINE + 3652 * DAY, MISSED_MAX - 1)


def test_one_time_that_was_missed_never_comes_again() -> None:
    assert decide(Once(NINE), NINE, NINE + 2 * HOUR, misfire_grace=HOUR, done=()) == MisfireDecision(False, None, 1)


def test_a_clock_that_was_set_back_brings_no_time_back_that_had_its_run() -> None:
    now = NINE - HOUR
    assert next_due(DAILY, now, {NINE}) == NINE + DAY
    assert decide(DAILY, NINE + DAY, now, misfire_grace=HOUR, done={NINE}) == MisfireDecision(False, NINE + DAY)
    assert decide(MINUTELY, NINE - MINUTE, NINE, misfire_grace=HOUR, done={NINE}) == MisfireDecision(
        True, NINE - MINUTE
    )


def test_a_clock_that_was_far_ahead_leaves_nothing_waiting_for_years() -> None:
    assert decide(DAILY, NINE + 30_000 * DAY, NINE - HOUR, misfire_grace=HOUR, done=()) == MisfireDecision(False, NINE)


def test_one_time_in_the_far_future_stays_there() -> None:
    at = NINE + 3652 * DAY
    assert decide(Once(at), at, NINE, misfire_grace=HOUR, done=()) == MisfireDecision(False, at)


def test_a_time_of_a_schedule_that_has_changed_is_not_run() -> None:
    assert decide(DAILY, NINE + MINUTE, NINE + 2 * MINUTE, misfire_grace=HOUR, done=()) == MisfireDecision(
        False, NINE + DAY, 1
    )


@given(st.lists(st.integers(-180, 180), max_size=60), st.integers(0, 90))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_whatever_the_clock_does_no_time_is_run_twice(steps: list[int], misfire_grace: int) -> None:
    """The clock jumps by so many minutes, forward and back; each judgement is carried out."""
    schedule = read_schedule("*/20 * * * *", "Europe/Berlin")
    now, done, ran = NINE, set[datetime](), list[datetime]()
    due = schedule.next_after(now)
    for step in steps:
        now += step * MINUTE
        assert due is not None
        verdict = decide(schedule, due, now, misfire_grace=misfire_grace * MINUTE, done=done)
        if verdict.start:
            assert verdict.due_at is not None
            assert now - misfire_grace * MINUTE <= verdict.due_at <= now
            ran.append(verdict.due_at)
            done.add(verdict.due_at)
            due = next_due(schedule, now, done)
        else:
            due = verdict.due_at
            assert due is not None
            assert due > now
    assert len(ran) == len(set(ran))
