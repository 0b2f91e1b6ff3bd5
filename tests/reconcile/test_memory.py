"""What failed is tried again ever more slowly; what died is mourned once; what changed is tried at once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.api.sandbox import RuntimeRecord
from sandkeeper.lifecycle import Create, Observed, Preflight, Removal, Remove, RuntimeState, Setup, Start
from sandkeeper.reconcile.memory import Memory

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)

DEAD = Observed(
    backend="docker",
    id="abc",
    name="sandkeeper-rain",
    node="ENGINE",
    state=RuntimeState.FAILED,
    created_at=NOW - 5 * SECOND,
    config_hash="v1-1",
    image="image:1",
    has_setup=False,
    ended=Reason.OOM_KILLED,
)
BURY = Remove(id="abc", removal=Removal.DEAD)
MISSING = Permanent(Reason.IMAGE_MISSING, "no image")


def test_the_first_death_is_made_good_at_once_and_the_second_is_not() -> None:
    memory = Memory()
    memory.mourn(BURY, observed=DEAD, recorded=None, now=NOW)
    assert not memory.is_backing_off(NOW)
    memory.mourn(BURY, observed=DEAD, recorded=None, now=NOW)
    assert not memory.is_backing_off(NOW), "it is the same death"
    memory.mourn(BURY, observed=replace(DEAD, id="def"), recorded=None, now=NOW + SECOND)
    assert memory.is_backing_off(NOW + SECOND)
    assert not memory.is_backing_off(NOW + 10 * SECOND)


def test_what_was_taken_away_is_mourned_for_the_reason_that_it_told_while_it_went() -> None:
    made = Create(ruler="a", recovery=True)
    recorded = RuntimeRecord(
        backend="pod", name="sk", id="abc", node="one", created_at=NOW, setup="NotNeeded"
    )
    evicted = replace(DEAD, state=RuntimeState.TERMINATING, ended=Reason.EVICTED, message="A drain.")
    memory = Memory()
    memory.see(evicted)
    memory.see(replace(evicted, ended=None, message=""))
    memory.mourn(made, observed=None, recorded=recorded, now=NOW)
    assert memory.failure is not None
    assert (memory.failure.reason, memory.failure.message) == (Reason.EVICTED, "A drain.")
    memory.mourn(made, observed=None, recorded=recorded.model_copy(update={"id": "def"}), now=NOW)
    assert (memory.failure.reason, memory.failure.message) == (Reason.EXITED, "the runtime vanished")


def test_ten_minutes_of_life_begin_a_new_row() -> None:
    memory = Memory()
    memory.mourn(BURY, observed=DEAD, recorded=None, now=NOW)
    later = replace(DEAD, id="def", created_at=NOW)
    memory.mourn(BURY, observed=later, recorded=None, now=NOW + timedelta(minutes=11))
    assert not memory.is_backing_off(NOW + timedelta(minutes=11))


def test_another_configuration_is_tried_at_once() -> None:
    memory = Memory()
    memory.fail(Create(ruler="u"), MISSING, config_hash="v1-1", now=NOW)
    memory.freshen({"v1-1"}, NOW)
    assert memory.is_backing_off(NOW)
    memory.freshen({"v1-2"}, NOW)
    assert not memory.is_backing_off(NOW)


def test_what_is_tried_before_its_time_makes_the_row_no_longer() -> None:
    """A start is tried at each event, whatever failed before; a dozen in a minute are no reason to wait for five."""
    memory = Memory()
    memory.fail(Start(id="abc"), MISSING, config_hash=None, now=NOW)
    first = memory.failure
    assert first is not None
    memory.fail(
        Start(id="abc"), Permanent(Reason.START_FAILED, "no room"), config_hash=None, now=NOW + SECOND
    )
    assert memory.failure == replace(first, reason=Reason.START_FAILED, message="no room")
    memory.fail(Start(id="abc"), MISSING, config_hash=None, now=first.retry_at)
    assert memory.failure is not None
    assert memory.failure.count == 2


def test_what_failed_before_all_went_well_for_long_is_forgotten() -> None:
    memory = Memory()
    memory.fail(Remove(id="abc", removal=Removal.REPLACE), MISSING, config_hash=None, now=NOW)
    assert memory.failure is not None
    steady = memory.failure.retry_at + timedelta(minutes=10)
    memory.freshen(set(), steady)
    assert memory.failure is not None
    memory.freshen(set(), steady + SECOND)
    assert memory.failure is None


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    memory = Memory()
    memory.fail(Create(ruler="u"), MISSING, config_hash=None, now=NOW)
    earlier = NOW - timedelta(hours=1)
    memory.freshen(set(), earlier)
    assert not memory.is_backing_off(earlier)


def test_a_clock_that_was_set_back_holds_no_preflight_up() -> None:
    memory, earlier = Memory(), NOW - timedelta(hours=1)
    memory.fail(Preflight(ruler="a"), MISSING, config_hash="v1-1", now=NOW)
    memory.freshen({"v1-1"}, NOW)
    assert memory.preflight is not None
    assert memory.preflight.retry_at is not None
    assert memory.preflight.retry_at > NOW, "by the same clock it waits"
    memory.freshen({"v1-1"}, earlier)
    assert memory.preflight.retry_at == earlier


def test_a_runtime_that_is_removed_for_a_failure_is_not_mourned_besides() -> None:
    for effect in (Setup(id="abc", ruler="u"), Start(id="abc")):
        memory = Memory()
        memory.fail(effect, Permanent(Reason.SETUP_FAILED, "so"), config_hash=None, now=NOW)
        failure = memory.failure
        memory.mourn(BURY, observed=DEAD, recorded=None, now=NOW)
        assert memory.failure is failure


def test_preflights_back_off_apart_and_only_problems_are_remembered() -> None:
    memory, check = Memory(), Preflight(ruler="u")
    memory.fail(check, MISSING, config_hash="v1-1", now=NOW)
    first = memory.preflight
    memory.fail(check, MISSING, config_hash="v1-1", now=NOW)
    second = memory.preflight
    assert first is not None
    assert second is not None
    assert first.retry_at is not None
    assert second.retry_at is not None
    assert second.retry_at > first.retry_at
    assert memory.failure is None
    memory.succeed(check)
    assert memory.preflight is None
