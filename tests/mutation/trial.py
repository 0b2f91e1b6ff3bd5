"""Runs the tests against each mutant, in the copy: ``python -m mutation.trial MUTANTS FATES``.

Tests are imported and collected once. They run once as they are, which tells what each of them calls and how long it
takes; then a process is forked for each mutant, in which those that call the function run until one fails. Starting
pytest anew each time, as mutmut does, takes ten times as long as the tests. It is done only for what is called while
modules are imported, and by no test.
"""

import gc
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from testbed import progress

__all__ = ["Trial", "main"]

_ARGUMENTS: Final = (
    *("-q", "--tb=no", "--assert=plain", "--capture=no", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-m", "not cluster and not engine and not testbed_cycle and not nightly"),
    *("tests/api", "tests/config", "tests/lifecycle"),
)
"""Nobody reads why one fails, so that nothing is spent on telling."""
_BROKEN: Final = 70
"""The exit status of a process that could not even run a test."""
_SECONDS: Final = 20
"""Of processor time for a mutant, beyond ten times what its tests take: then it is held to go on for ever."""
_STEP: Final = 250


class Trial:
    """A plugin of pytest that runs its tests not once, but once for each mutant."""

    def __init__(self, mutants: Sequence[str], fates: Path) -> None:
        self._mutants = mutants
        self._fates = fates
        self._tests: dict[str, list[pytest.Item]] = defaultdict(list)
        """Those that call a function, by its name."""
        self._takes: dict[pytest.Item, float] = {}
        self._finders: dict[str, list[pytest.Item]] = defaultdict(list)
        """Those that found mutants of a function, the latest first: they may well find the next one."""
        self._running: dict[int, tuple[str, list[pytest.Item], int]] = {}
        """By the id of the process: the mutant, its tests in their order, and where it says which one failed."""
        self._at_import: frozenset[str] = frozenset()
        """The functions that were called before the first test."""
        self._done = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of the loop over all tests."""
        self._at_import = frozenset(state()._stats)
        self._learn(session.items)
        if session.testsfailed:
            return True
        gc.freeze()
        for mutant in self._mutants:
            tests = self._tests_of(mutant)
            if not tests and _function(mutant) not in self._at_import:
                self._say(mutant, "not called")
                continue
            while len(self._running) >= (os.cpu_count() or 1):
                self._wait()
            self._start(session, mutant, tests)
        while self._running:
            self._wait()
        return True

    def _learn(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            state()._stats.clear()
            begin = time.perf_counter()
            # Without a next one all fixtures go, so that each test has to call what makes them.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            self._takes[item] = time.perf_counter() - begin
            for function in state()._stats:
                self._tests[function].append(item)
        set_mutant_under_test("")

    def _tests_of(self, mutant: str) -> list[pytest.Item]:
        function = _function(mutant)
        finders = self._finders[function]
        others = sorted(set(self._tests[function]).difference(finders), key=self._takes.__getitem__)
        return [*finders, *others]

    def _start(self, session: pytest.Session, mutant: str, tests: list[pytest.Item]) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            self._running[pid] = (mutant, tests, reading)
            return
        try:
            seconds = int(time.process_time() + _SECONDS + 10 * sum(self._takes[item] for item in tests))
            if tests:
                _limit(seconds)
                self._run(session, mutant, tests, writing)
            else:
                _limit(seconds + 10 * int(sum(self._takes.values())))
                _start_anew(mutant)
        finally:
            os._exit(_BROKEN)

    @staticmethod
    def _run(session: pytest.Session, mutant: str, tests: Sequence[pytest.Item], writing: int) -> None:
        set_mutant_under_test(mutant)
        for number, (item, following) in enumerate(pairwise([*tests, None])):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                os.write(writing, str(number).encode())
                os._exit(1)
        os._exit(0)

    def _wait(self) -> None:
        pid, status = os.wait()
        mutant, tests, reading = self._running.pop(pid)
        with os.fdopen(reading, "rb") as told:
            number = told.read()
        if number:
            finder, finders = tests[int(number)], self._finders[_function(mutant)]
            if finder in finders:
                finders.remove(finder)
            finders.insert(0, finder)
        self._say(mutant, _fate(os.waitstatus_to_exitcode(status)))

    def _say(self, mutant: str, fate: str) -> None:
        with self._fates.open("a", encoding="utf-8") as file:
            file.write(f"{mutant} {fate}\n")
        self._done += 1
        if self._done % _STEP == 0 or self._done == len(self._mutants):
            progress.say(f"{self._done} of {len(self._mutants)} mutants tried")


def _fate(code: int) -> str:
    if code < 0:
        return "without end"
    return {0: "survived", _BROKEN: "broken"}.get(code, "found")


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _start_anew(mutant: str) -> None:
    arguments = [sys.executable, "-m", "pytest", "-x", *_ARGUMENTS]
    os.execve(sys.executable, arguments, {**os.environ, "MUTANT_UNDER_TEST": mutant})  # noqa: S606 - in place of this one


def _function(mutant: str) -> str:
    return mutant.partition("__mutmut_")[0]


def main(mutants: str, fates: str) -> int:
    """Try the mutants that one file names; write to another what becomes of each."""
    names = Path(mutants).read_text(encoding="utf-8").split()
    set_mutant_under_test("stats")
    return int(pytest.main(list(_ARGUMENTS), plugins=[Trial(names, Path(fates).resolve())]))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
