"""Binds: what reaches the host, and everything that tries to."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import ceilings, made_from, operator, policy, resolved
from sandkeeper.api.conditions import Reason
from sandkeeper.config.binds import (
    BLOCKED_PATHS,
    Mount,
    check,
    check_resolved,
    normalise_binds,
    normalise_path,
    parse,
)

EVERYWHERE = ceilings(bindRoots=["/"])
AGENTS = ceilings(bindRoots=["/srv/agents", "/mnt/cache/"])

SEGMENTS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "etc"]), max_size=6)


def refused(bind: str, *, under: object = EVERYWHERE) -> str:
    (problem,) = check([bind], under)  # type: ignore[arg-type]
    assert problem.reason is Reason.BIND_REFUSED
    assert problem.message.startswith(f"container.binds: {bind!r} is refused: ")
    return problem.message


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("//", "/"),
        ("///", "/"),
        ("//etc", "/etc"),
        ("/a//b/", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/../../b", "/b"),
        ("/a/..", "/"),
    ],
)
def test_a_path_has_one_spelling(path: str, normal: str) -> None:
    assert normalise_path(path) == normal


@given(SEGMENTS)
def test_normalising_twice_changes_nothing(segments: list[str]) -> None:
    normal = normalise_path("/" + "/".join(segments))

    assert normalise_path(normal) == normal
    assert normal.startswith("/")
    assert not {"..", ".", ""} & set(normal.split("/")[1:]) or normal == "/"


@pytest.mark.parametrize(
    ("bind", "mount"),
    [
        ("/a:/b", Mount("/a", "/b", "rw")),
        ("/a:/b:rw", Mount("/a", "/b", "rw")),
        ("/a//x/:/b/./:ro", Mount("/a/x", "/b", "ro")),
    ],
)
def test_a_bind_without_a_mode_is_writable(bind: str, mount: Mount) -> None:
    assert parse(bind) == mount
    assert parse(str(mount)) == mount


@pytest.mark.parametrize(
    "bind",
    [
        "volume:/data",
        "a/b:/c",
        "./a:/c",
        "~/a:/c",
        "/a",
        "/a:b",
        "/a:/b:z",
        "/a:/b:ro,z",
        "/a:/b:ro:x",
        ":/b",
        "/a:",
    ],
)
def test_a_bind_that_is_none(bind: str) -> None:
    assert refused(bind)


ATTACKS = [
    "/",
    "//",
    "/.",
    "/srv/..",
    *BLOCKED_PATHS,
    *(f"{path}/" for path in BLOCKED_PATHS),
    *(f"{path}/below" for path in BLOCKED_PATHS),
    *(f"/{path}" for path in BLOCKED_PATHS),
    *(f"/srv/agents/../..{path}" for path in BLOCKED_PATHS),
    "/var",
    "/var/lib",
    "/private",
    "/private/var",
    "/var/spool",
    "/proc/../etc",
    "/proc/1/root",
    "/proc/self/root/etc",
    "/etc/../etc/shadow",
    "/srv/agents/../../etc",
    "/srv//agents/.././../etc/",
    "/ETC",
    "/Etc/passwd",
    "/VAR/RUN/docker.sock",
    "/run/containerd/containerd.sock",
    "/var/lib/docker/overlay2",
    "/var/lib/kubelet/pods",
    "/srv/agents/docker.sock",
    "/srv/agents/containerd.sock",
    "/run/user/1000/podman/podman.sock",
    "/home",
    "/home/",
    "/home/rain",
    "/home/rain/work/..",
    "/Users/rain",
    "/var/home/rain",
    *(
        f"/home/rain/{part}{below}"
        for part in (".ssh", ".aws", ".gnupg", ".docker", ".kube", ".config", ".cargo", ".npm", ".netrc")
        for below in ("", "/", "/x/y")
    ),
    "/home/rain/.SSH",
    "/data/homes/rain/.ssh/id_ed25519",
    "/srv/agents/x/../.ssh",
]


@pytest.mark.parametrize("source", ATTACKS)
@pytest.mark.parametrize("mode", ["", ":ro"])
def test_no_ceiling_opens_the_host(source: str, mode: str) -> None:
    message = refused(f"{source}:/mnt{mode}")

    assert "bindRoots" not in message, "no root would help, so none is asked for"


@pytest.mark.parametrize(
    "source",
    [
        "/srv/agents",
        "/srv/agents/",
        "/srv/agents/dev",
        "/srv/agents/dev/../ops",
        "/srv//agents/./dev",
        "/mnt/cache",
        "/mnt/cache/npm",
        "/srv/agents/etc",
        "/srv/agents/.sshx",
        "/srv/agents/run",
    ],
)
def test_below_a_bind_root(source: str) -> None:
    assert not list(check([f"{source}:/mnt"], AGENTS))


@pytest.mark.parametrize(
    "source",
    [
        "/srv",
        "/srv/agents2",
        "/srv/agent",
        "/srv/Agents/dev",
        "/srv/agents/../other",
        "/srv/agents/../agents2/x",
        "/mnt/cache2",
        "/mnt",
        "/home/rain/work",
        "/opt/data",
    ],
)
def test_outside_the_bind_roots(source: str) -> None:
    assert "ask the installer to add its directory to ceilings.bindRoots" in refused(
        f"{source}:/mnt", under=AGENTS
    )


def test_no_roots_no_binds() -> None:
    assert "ceilings.bindRoots" in refused("/srv/agents/dev:/mnt", under=ceilings())


def test_the_shared_directory_of_a_home_can_be_bound() -> None:
    home = ceilings(bindRoots=["/home/rain/.openclaw"])

    assert not list(check(["/home/rain/.openclaw/shared:/workspace/shared:rw"], home))


@pytest.mark.parametrize(
    "target", ["/", "//", "/x/..", "/proc", "/proc/sys", "/x/../sys", "//dev/shm", "/dev/"]
)
def test_what_a_bind_may_not_cover(target: str) -> None:
    assert refused(f"/srv/agents:{target}", under=AGENTS)


@pytest.mark.parametrize(
    "target", ["/workspace", "/agent", "/etc/app", "/process", "/developer", "/home/x/.ssh"]
)
def test_what_a_bind_may_cover(target: str) -> None:
    assert not list(check([f"/srv/agents:{target}"], AGENTS))


def test_the_last_bind_of_a_target_wins() -> None:
    binds = ["/srv/a:/x", "/srv/b:/y:ro", "/srv/c:/x/:ro", "/srv//d:/z"]

    assert normalise_binds(binds) == ("/srv/b:/y:ro", "/srv/c:/x:ro", "/srv/d:/z:rw")


def test_an_overridden_bind_is_checked_all_the_same() -> None:
    under = policy(
        container={"binds": ["/etc:/x"]}, agents=[{"id": "dev", "container": {"binds": ["/srv/agents:/x"]}}]
    )

    problem = resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.reason is Reason.BIND_REFUSED


def test_levels_concatenate_and_the_result_is_normalised() -> None:
    under = policy(
        container={"binds": ["/srv/a:/a", "/srv/b:/b"]},
        agents=[{"id": "dev", "container": {"binds": ["/srv/dev//:/a:ro"]}}],
    )

    config = made_from(resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})))

    assert config.binds == ("/srv/b:/b:rw", "/srv/dev:/a:ro")


# --- with links followed ----------------------------------------------------------------------------------------------


def following(links: dict[str, str]) -> object:
    """A resolver for a host that has these links, and no others."""

    def resolve(path: str) -> str:
        for link, to in links.items():
            if path == link or path.startswith(f"{link}/"):
                return resolve(to + path.removeprefix(link))
        return path

    return resolve


@pytest.mark.parametrize(
    ("links", "source", "why"),
    [
        ({"/srv/agents/x": "/etc"}, "/srv/agents/x", "/etc is never bound"),
        ({"/srv/agents/x": "/"}, "/srv/agents/x", "the whole host"),
        ({"/srv/agents/x": "/var/run"}, "/srv/agents/x/new-file", "/var/run is never bound"),
        ({"/srv/agents/x": "/var"}, "/srv/agents/x", "it contains"),
        ({"/srv/agents/x": "/srv/other"}, "/srv/agents/x", "outside the operator's bind roots"),
        ({"/srv/agents/x": "/srv/agents2"}, "/srv/agents/x", "outside the operator's bind roots"),
        ({"/srv/agents/x": "/home/rain/.ssh"}, "/srv/agents/x", ".ssh holds credentials"),
        ({"/srv/agents/x": "/srv/y", "/srv/y": "/proc"}, "/srv/agents/x", "/proc is never bound"),
        (
            {"/var/lib/docker": "/srv/agents/docker"},
            "/srv/agents/docker/overlay2",
            "/srv/agents/docker is never",
        ),
        ({"/var/lib/docker": "/srv/agents/docker"}, "/srv/agents", "it contains /srv/agents/docker"),
        ({"/srv/agents": "/data/agents"}, "/mnt/cache/x", None),
        ({"/srv/agents": "/data/agents"}, "/srv/agents/x", None),
        ({"/srv/agents": "/data/agents", "/mnt/cache": "/data"}, "/mnt/cache/agents/x", None),
    ],
)
def test_where_a_link_leads_is_what_counts(links: dict[str, str], source: str, why: str | None) -> None:
    problem = check_resolved([f"{source}:/mnt:rw"], AGENTS, following(links))  # type: ignore[arg-type]

    if why is None:
        assert problem is None
    else:
        assert problem is not None
        assert problem.reason is Reason.BIND_REFUSED
        assert why in problem.message


def test_a_good_place_under_a_bad_name_stays_refused() -> None:
    links = following({"/etc/agents": "/srv/agents"})

    assert check_resolved(["/etc/agents:/mnt:rw"], AGENTS, links) is not None  # type: ignore[arg-type]


def test_real_links_on_a_real_file_system(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    (root / "host").symlink_to("/")
    (root / "loop").symlink_to("loop")
    (tmp_path / "alias").symlink_to(root)
    opened = ceilings(bindRoots=[str(tmp_path / "alias")])

    def passes(source: Path) -> bool:
        return check_resolved([f"{source}:/mnt:rw"], opened, os.path.realpath) is None

    assert passes(tmp_path / "alias" / "dev")
    assert passes(tmp_path / "alias" / "dev" / "not-there-yet")
    assert not passes(root / "dev"), "by its own name it is not below the root as it is written"
    assert not passes(tmp_path / "alias" / "out")
    assert not passes(tmp_path / "alias" / "out" / "not-there-yet")
    assert not passes(tmp_path / "alias" / "up")
    assert not passes(tmp_path / "alias" / "host")
    assert not passes(tmp_path / "alias" / "host" / "etc")


def test_the_resolved_check_covers_every_bind() -> None:
    links = following({"/srv/agents/b": "/etc"})
    binds = ["/srv/agents/a:/a:rw", "/srv/agents/b:/b:rw"]

    problem = check_resolved(binds, AGENTS, links)  # type: ignore[arg-type]

    assert problem is not None
    assert "'/srv/agents/b:/b:rw'" in problem.message
