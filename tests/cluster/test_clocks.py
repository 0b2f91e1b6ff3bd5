"""How far a clock is from the API server's is known at every moment, not only when there is an answer."""

from email.utils import formatdate

import pytest

from sandkeeper.cluster.clocks import ServerClock


class Times:
    """Two clocks that a test can turn."""

    def __init__(self) -> None:
        self.wall, self.boot = 1_000_000.5, 50.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.boot += seconds


def clock_of(times: Times) -> ServerClock:
    return ServerClock(wall=lambda: times.wall, boot=lambda: times.boot)


def test_nothing_is_known_before_the_first_answer() -> None:
    clock = clock_of(Times())
    assert clock.offset is None
    clock.note(None)
    clock.note("yesterday")
    assert clock.offset is None


@pytest.mark.parametrize("ahead", [0, 40, -3600])
def test_an_answer_tells_it_and_it_stays_while_time_passes(ahead: int) -> None:
    times = Times()
    clock = clock_of(times)
    clock.note(formatdate(times.wall - ahead, usegmt=True))
    assert clock.offset == pytest.approx(ahead, abs=0.51)
    times.pass_by(600)
    assert clock.offset == pytest.approx(ahead, abs=0.51)


@pytest.mark.parametrize("step", [90, -90, 86_400])
def test_a_clock_that_is_set_is_found_out_before_the_next_answer(step: int) -> None:
    times = Times()
    clock = clock_of(times)
    clock.note(formatdate(times.wall, usegmt=True))
    times.pass_by(10)
    times.wall += step
    assert clock.offset == pytest.approx(step, abs=0.51)
    clock.note(formatdate(times.wall - step, usegmt=True))
    assert clock.offset == pytest.approx(step, abs=0.51)
