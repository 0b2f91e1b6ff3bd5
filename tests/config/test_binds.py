"""Binds: what reaches the host, and everything that tries to."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import ceilings, made_from, operator, policy, resolved
from sandkeeper.api.conditions import Reason
from sandkeeper.config.binds import (
    BLOCKED_PATHS,
    Mount,
    check,
    check_directory,
    check_real_directory,
    normalise_binds,
    normalise_path,
    parse,
    swappable_in,
    taken_targets,
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
        ("/X/./Y", "/X/Y"),
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
        ("/a:/b", Mount("/a", "/b", "ro")),
        ("/a:/b:rw", Mount("/a", "/b", "rw")),
        ("/a//x/:/b/./:ro", Mount("/a/x", "/b", "ro")),
    ],
)
def test_a_bind_without_a_mode_is_read_only(bind: str, mount: Mount) -> None:
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
    message = refused(bind)

    assert "is not of the form /host:/container[:ro|rw]" in message or "is not an absolute path" in message


@pytest.mark.parametrize("path", ["", "a", "./a", "/a\0", "/\0/a"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is not an absolute path"):
        normalise_path(path)


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
    assert refused(f"{source}:/mnt", under=AGENTS).endswith(
        f" {normalise_path(source)} is outside the operator's bind roots; "
        "ask the installer to add its directory to ceilings.bindRoots"
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


TAKEN = taken_targets("/work", has_skills=True)


@pytest.mark.parametrize(
    "target",
    [
        "/work",
        "/work/",
        "/workspace",
        "/x/../workspace",
        "/agent",
        "/agent/",
        "/agent/x",
        "/work/skills",
        "/work/skills/x",
    ],
)
def test_what_is_the_workspaces(target: str) -> None:
    (problem,) = check([f"/srv/agents:{target}"], AGENTS, taken=TAKEN)

    assert "is the workspace's" in problem.message
    assert "a directory below it" in problem.message


@pytest.mark.parametrize(
    "target",
    [
        "/workspace/shared",
        "/work/common",
        "/work/skills2",
        "/workspace/skills",
        "/agents",
        "/etc/app",
        "/process",
        "/developer",
        "/home/x/.ssh",
    ],
)
def test_what_a_bind_may_cover(target: str) -> None:
    assert not list(check([f"/srv/agents:{target}"], AGENTS, taken=TAKEN))


def test_without_skills_their_place_is_free() -> None:
    assert "/workspace/skills" not in taken_targets("/workspace")
    assert not list(check(["/srv/agents:/workspace/skills"], AGENTS, taken=taken_targets("/workspace")))


@pytest.mark.parametrize(
    ("path", "writable", "root"),
    [
        ("/srv/a/b", ["/srv/a"], "/srv/a"),
        ("/srv/a/b/c", ["/srv/a"], "/srv/a"),
        ("/srv/a", ["/srv/a"], None),
        ("/srv/ab", ["/srv/a"], None),
        ("/srv", ["/srv/a"], None),
        ("/srv/a/b", ["/srv/a/b", "/srv/a"], "/srv/a"),
        ("/srv/a/b", [], None),
        ("/srv/a/b", ["/"], "/"),
    ],
)
def test_what_a_sandbox_could_swap(path: str, writable: list[str], root: str | None) -> None:
    assert swappable_in(path, writable) == root


WORKSPACE = {"agent": {"hostPath": {"path": "/srv/agents/{agentId}"}}}
KEPT = {**WORKSPACE, "volume": {"hostPath": {"path": "/srv/copies"}}}


@pytest.mark.parametrize(
    ("binds", "workspace", "field"),
    [
        (["/srv/x:/x:rw", "/srv/x/y:/y"], {}, "container.binds: '/srv/x/y'"),
        (["/srv/agents/dev/z:/z"], {"access": "rw", **WORKSPACE}, "container.binds: '/srv/agents/dev/z'"),
        (["/srv/agents:/x:rw"], {"access": "rw", **WORKSPACE}, "workspace.agent.hostPath: '/srv/agents/dev'"),
        (["/srv/copies:/x:rw"], KEPT, "workspace.volume.hostPath: '/srv/copies/*'"),
    ],
)
def test_nothing_is_mounted_from_where_the_sandbox_itself_writes(
    binds: list[str], workspace: dict[str, object], field: str
) -> None:
    under = policy(container={"binds": binds}, workspace=workspace)

    problem = resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.reason is Reason.BIND_REFUSED
    assert problem.message.startswith(f"{field} is refused: it lies in /srv/")


@pytest.mark.parametrize(
    ("binds", "workspace"),
    [
        (["/srv/x:/x:rw", "/srv/x:/y"], {}),
        (["/srv/x:/x", "/srv/x/y:/y:rw"], {}),
        (["/srv/agents/dev/z:/z"], {"access": "ro", **KEPT}),
        (["/srv/agents:/x"], {"access": "rw", **WORKSPACE}),
        (["/srv/shared:/workspace/shared:rw"], {"access": "rw", **WORKSPACE}),
    ],
)
def test_the_very_directory_may_be_shared(binds: list[str], workspace: dict[str, object]) -> None:
    under = policy(container={"binds": binds}, workspace=workspace)

    made_from(resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})))


@pytest.mark.parametrize("entry", [{}, {"agents": [{"id": "dev", "browser": {"binds": ["/etc:/x"]}}]}])
def test_binds_of_a_browser_are_checked_though_none_is_run(entry: dict[str, object]) -> None:
    under = policy(**(entry or {"browser": {"binds": ["/etc:/x"]}}))

    problem = resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.message.startswith("browser.binds: '/etc:/x' is refused: ")


def test_binds_of_a_browser_reach_no_sandbox() -> None:
    under = policy(browser={"binds": ["/srv/x:/x"]})

    assert resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).config_hash == (
        resolved().config_hash
    )


def test_the_last_bind_of_a_target_wins() -> None:
    binds = ["/srv/a:/x", "/srv/b:/y:ro", "/srv/c:/x/:ro", "/srv//d:/z"]

    assert normalise_binds(binds) == ("/srv/b:/y:ro", "/srv/c:/x:ro", "/srv/d:/z:ro")


def test_an_overridden_bind_is_checked_all_the_same() -> None:
    under = policy(
        container={"binds": ["/etc:/x"]}, agents=[{"id": "dev", "container": {"binds": ["/srv/agents:/x"]}}]
    )

    problem = resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.reason is Reason.BIND_REFUSED


def test_levels_concatenate_and_the_result_is_normalised() -> None:
    under = policy(
        container={"binds": ["/srv/a:/a", "/srv/b:/b:rw"]},
        agents=[{"id": "dev", "container": {"binds": ["/srv/dev//:/a:ro"]}}],
    )

    config = made_from(resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})))

    assert config.binds == ("/srv/b:/b:rw", "/srv/dev:/a:ro")


# --- with links followed ----------------------------------------------------------------------------------------------


def following(links: dict[str, str]) -> Callable[[str], str]:
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
    resolve = following(links)

    refused = check_real_directory(resolve(source), AGENTS, resolve)

    if why is None:
        assert refused is None
    else:
        assert refused is not None
        assert why in refused


def test_a_good_place_under_a_bad_name_is_refused_as_it_is_written() -> None:
    assert check_directory("/etc/agents", ceilings(bindRoots=["/etc/agents"])) is not None
