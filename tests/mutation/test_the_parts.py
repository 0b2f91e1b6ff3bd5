"""What is mutated is what would run, and what is counted is what was found."""

from pathlib import Path

from mutation.properties import without_properties
from mutation.scoring import scores, survivors
from sandkeeper.lifecycle import view

SOURCE = """\
class Square:
    side = 2

    @property
    def area(self) -> int:
        \"\"\"Both ways.\"\"\"
        return self.side * self.side

    @staticmethod
    def untouched() -> int:
        return 1

    @property
    def round(self) -> bool:
        return (
            False
        )
"""


def test_properties_become_plain_methods_and_stay_properties() -> None:
    plain = without_properties(SOURCE)
    known: dict[str, type] = {}
    exec(plain, known)  # noqa: S102 - ours

    assert "@property" not in plain
    assert "@staticmethod" in plain
    square = known["Square"]()
    assert (square.area, square.round, square.untouched()) == (4, False, 1)
    assert (square.get_area(), square.get_round()) == (4, False)


def test_the_sources_are_still_python() -> None:
    source = Path(view.__file__).read_text(encoding="utf-8")

    plain = without_properties(source)

    compile(plain, "view", "exec")
    assert plain.count("= property(get_") == source.count("@property")


def test_what_is_never_called_is_not_found() -> None:
    fates = {
        "sandkeeper.api.a.x_f__mutmut_1": "found",
        "sandkeeper.api.a.x_f__mutmut_2": "not called",
        "sandkeeper.config.a.x_f__mutmut_1": "without end",
        "sandkeeper.config.a.x_f__mutmut_2": "found",
        "sandkeeper.config.a.x_f__mutmut_3": "survived",
        "sandkeeper.config.a.x_f__mutmut_4": "broken",
    }

    assert [(each.package, each.tried, each.found, each.share) for each in scores(fates)] == [
        ("api", 2, 1, 50.0),
        ("config", 4, 2, 50.0),
    ]
    assert survivors(fates) == [name for name, fate in fates.items() if fate not in {"found", "without end"}]
