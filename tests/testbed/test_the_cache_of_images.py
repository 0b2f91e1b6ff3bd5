from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from testbed import images, shipped_images
from testbed.paths import Layout


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of images that a test may change."""
    folder = tmp_path / "images"
    for name in shipped_images.TARGETS:
        (folder / name / "more").mkdir(parents=True)
        (folder / name / "Dockerfile").write_text(f"FROM {name}\n", encoding="utf-8")
    monkeypatch.setattr(shipped_images, "SOURCE", folder)
    return folder


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(state=Path("/s"), cache=tmp_path / "cache")


def archives(layout: Layout) -> dict[str, Path]:
    return {name: shipped_images.archive(layout, name) for name in shipped_images.TARGETS}


@pytest.mark.parametrize(
    ("changed", "anew"),
    [("base", {"base", "common"}), ("common", {"common"}), ("browser", {"browser"})],
)
def test_an_image_is_another_when_its_own_folder_changes_or_what_it_builds_on(
    source: Path, layout: Layout, changed: str, anew: set[str]
) -> None:
    before = archives(layout)
    (source / changed / "more" / "package-lock.json").write_text("{}", encoding="utf-8")
    after = archives(layout)
    assert {name for name, found in after.items() if found != before[name]} == anew


def test_all_are_others_when_the_debian_below_them_is(
    source: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archives(layout)
    monkeypatch.setattr(images, "base_recipe", lambda: "another")
    assert not set(archives(layout).values()) & set(before.values())


def test_what_is_there_is_not_built_again_and_what_nobody_uses_goes(source: Path, layout: Layout) -> None:
    unused, recent, base = (
        layout.cache / name for name in ("image-base-0.tar", "image-base-1.tar", "bookworm-0.tar")
    )
    long_ago = time.time() - 30 * 24 * 3600
    layout.cache.mkdir()
    for found in (*archives(layout).values(), unused, recent, base):
        found.touch()
        if found != recent:
            os.utime(found, (long_ago, long_ago))
    shipped_images.ensure(layout, {})
    assert set(layout.cache.iterdir()) == {*archives(layout).values(), recent, base}
