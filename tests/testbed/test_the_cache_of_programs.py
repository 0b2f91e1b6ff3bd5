from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed import binaries, kwok, paths
from testbed.paths import Layout

if TYPE_CHECKING:
    from testbed.binaries import Kit


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*binaries.CLUSTER.modules, *kwok.KIT.modules):
        (tmp_path / name).mkdir()
        (tmp_path / name / "go.mod").write_text(f"module {name}\n", encoding="utf-8")
    monkeypatch.setattr(paths, "MODULES", tmp_path)
    return tmp_path


def folder(kit: Kit, modules: Path, go_version: str = "go1.26") -> str:
    return binaries.folder(Layout(Path("/s"), Path("/c")), kit, go_version=go_version).name


@pytest.mark.parametrize("kit", [binaries.CLUSTER, kwok.KIT], ids=lambda kit: kit.name)
def test_a_kit_has_another_folder_when_its_own_modules_change_and_only_then(kit: Kit, modules: Path) -> None:
    before = folder(kit, modules)
    for module in modules.iterdir():
        (module / "README.md").write_text("no matter", encoding="utf-8")
        assert folder(kit, modules) == before
        (module / "go.sum").write_text("a sum", encoding="utf-8")
        assert (folder(kit, modules) != before) == (module.name in kit.modules)
        (module / "go.sum").unlink()


def test_another_go_makes_other_programs(modules: Path) -> None:
    assert folder(kwok.KIT, modules) != folder(kwok.KIT, modules, "go1.27")


def test_kits_do_not_share_a_folder(modules: Path) -> None:
    assert folder(kwok.KIT, modules) != folder(binaries.CLUSTER, modules)
    assert not kwok.KIT.modules & binaries.CLUSTER.modules
