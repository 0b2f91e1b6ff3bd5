"""One fuzzed test, guided by the code that its texts reach: a program, because Atheris ends its process.

Its first argument is ``module.test``; all others are libFuzzer's.
"""

import importlib
import sys

import atheris

__all__ = ["main"]


def main(name: str, options: list[str]) -> None:
    """Fuzz until an option says that it is enough, or a text breaks what the test asserts."""
    module, _, test = name.rpartition(".")
    with atheris.instrument_imports(include=["sandkeeper.config", "sandkeeper.bridge"]):
        found = importlib.import_module(f"attacks.{module}")
    atheris.Setup([test, *options], getattr(found, test).hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
