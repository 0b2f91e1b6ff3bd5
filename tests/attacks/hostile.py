"""Texts that somebody would try who wants to get out."""

from typing import Final

from hypothesis import strategies as st

__all__ = ["NAMES", "PATHS", "PIECES", "TEXTS", "around", "is_unicode"]

PIECES: Final = (
    *("\0", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud800"),
    *(
        "'",
        '"',
        "`",
        "$(id)",
        "${HOME}",
        "$$",
        "$",
        ";",
        "&",
        "|",
        "<",
        ">",
        "\\",
        "*",
        "?",
        "~",
        "#",
        "!",
        "%s",
    ),
    *("{agentId}", "{", "}", "{{", "[", "]", "(", ")", "=", ",", ":", "@", " ", "--", "-v", "--privileged"),
    *(
        "/",
        "//",
        ".",
        "..",
        "/..",
        "../",
        "/.",
        "./",
        "/proc/1/root",
        "/etc",
        "/var/run",
        ".ssh",
        "docker.sock",
    ),
    # letters that are others in another case, and digits that are none to a kernel
    *("\u017f", "\u212a", "\u0130", "\u00e9", "e\u0301", "\u0661", "\u00b2", "\uff0f", "\uff0e"),
)
"""What breaks a quotation, parts a field from the next, begins an option, or means something in a path."""

NAMES: Final = st.one_of(
    st.sampled_from(["a", "b", "srv", "agents", "..", ".", "", "etc", "proc", "home", ".ssh", "docker.sock"]),
    st.sampled_from(PIECES),
    st.text(max_size=4),
)
"""A component of a path, or what pretends to be one."""

PATHS: Final = st.lists(NAMES, max_size=6).map(lambda names: "/" + "/".join(names))

TEXTS: Final = st.one_of(
    st.text(max_size=40),
    PATHS,
    st.lists(st.one_of(st.sampled_from(PIECES), st.text("ab/:", max_size=3)), max_size=6).map("".join),
)


def around(good: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Give texts that are good, and good ones with something in them that should not be."""

    def spoil(text: str, piece: str, place: int) -> str:
        at = place % (len(text) + 1)
        return text[:at] + piece + text[at:]

    return st.one_of(good, st.builds(spoil, good, st.sampled_from(PIECES), st.integers(0, 1 << 16)), TEXTS)


def is_unicode(text: str) -> bool:
    """Whether it has no lone surrogates, which JSON cannot carry: another text would arrive."""
    return text.encode(errors="ignore").decode() == text
