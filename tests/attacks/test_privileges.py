"""Getting rights that a sandbox does not have.

What a container's walls are made of: capabilities, namespaces, the seccomp filter, no new privileges, devices, and what
is not in it at all.
"""

import os
import struct
import subprocess
from pathlib import Path

import pytest

from attacks.register import attack
from attacks.stage import AGENTS, DONE, Stage

pytestmark = pytest.mark.cluster


@attack(
    "which rights processes have, in all four sandboxes, and which they could get",
    stopped_by="no capability in any set, the bounding one included; no new privileges; a seccomp filter",
)
def test_the_rights_there_are(stage: Stage) -> None:
    for agent in AGENTS:
        lines = stage.sh(agent, "cat /proc/self/status").output.splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert {int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert set(status["Uid"].split()) == {"1000"}
        assert "0" not in status["Gid"].split() + status.get("Groups", "").split()


@attack(
    "`mount`, a bind mount, a remount of the root; `unshare` of users and mounts, `nsenter`, `chroot`; "
    "`setuid`, `setgroups`, `su`; other owners, host names, clocks and priorities",
    stopped_by="no capabilities, and the seccomp filter",
)
def test_what_only_root_may(stage: Stage) -> None:
    said = stage.attempt(
        "rain",
        "run('mount', '-t', 'tmpfs', 'none', '/tmp')",
        "run('mount', '--bind', '/proc', '/tmp')",
        "run('mount', '-o', 'remount,rw', '/')",
        "run('umount', '-l', '/workspace/skills')",
        "run('unshare', '--user', '--map-root-user', 'true')",
        "run('unshare', '--mount', 'true')",
        "run('unshare', '--pid', '--fork', 'true')",
        "run('nsenter', '--target', '1', '--mount', 'true')",
        "run('su', '-c', 'true')",
        "os.chroot('/tmp')",
        "os.setuid(0)",
        "os.setgroups([0])",
        "os.chown('/workspace/SOUL.md', 0, 0)",
        "os.nice(-5)",
        "socket.sethostname('elsewhere')",
        "time.clock_settime(time.CLOCK_REALTIME, 0)",
    )
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    assert stage.attempt("rain", "run('true')", "os.nice(1)") == {"run('true')": DONE, "os.nice(1)": DONE}


@attack(
    "programs that root planted in the shared directory: one with the set-user-ID bit, one with a capability",
    stopped_by="no new privileges: the bits have no effect",
)
def test_planted_programs(stage: Stage) -> None:
    shared = stage.root / "shared"
    copied = "rm -f suid capable; cp /usr/bin/id suid; cp /usr/bin/cat capable"
    assert stage.sh("rain", f"cd /workspace/shared; {copied}").code == 0
    for name in ("suid", "capable"):
        os.chown(shared / name, 0, 0)
        (shared / name).chmod(0o4755 if name == "suid" else 0o755)
    dac_override = struct.pack("<5I", 0x02000001, 1 << 1, 0, 0, 0)
    os.setxattr(shared / "capable", "security.capability", dac_override)
    roots = shared / "roots"
    roots.write_text("root's own")
    roots.chmod(0o600)

    on_the_host = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
    for command, found in ((["suid", "-u"], "0\n"), (["capable", "roots"], "root's own")):
        tried = [*on_the_host, f"./{command[0]}", *command[1:]]
        printed = subprocess.run(tried, cwd=shared, capture_output=True, text=True, check=True).stdout
        assert printed == found, "outside of a sandbox the bits do have an effect"

    assert stage.sh("rain", "/workspace/shared/suid -u").output == "1000\n"
    capable = stage.sh("rain", "cd /workspace/shared; ./capable roots")
    assert capable.code != 0
    assert "root's own" not in capable.output


@attack(
    "device nodes: making one, in memory and on a bind; opening one that root planted; `/dev/mem`, `/dev/kmsg`, disks",
    stopped_by="no capability to make one; the devices' control group lets none be opened that is not the container's",
)
def test_devices(stage: Stage) -> None:
    planted = stage.root / "shared" / "disk"
    planted.unlink(missing_ok=True)
    root_disk = Path("/").stat().st_dev
    os.mknod(planted, 0o60666, root_disk)
    planted.chmod(0o666)
    said = stage.attempt(
        "rain",
        *(
            f"os.mknod('{place}/node', 0o666 | stat.S_IF{kind}, os.makedev(1, 1))"
            for place in ("/tmp", "/workspace")  # noqa: S108 - in the sandbox
            for kind in ("CHR", "BLK")
        ),
        "os.open('/workspace/shared/disk', os.O_RDONLY)",
        *(
            f"os.open('{path}', os.O_RDONLY)"
            for path in ("/dev/mem", "/dev/kmsg", "/dev/port", "/proc/kcore")
        ),
        "write('/dev/null')",
    )
    assert said.pop("write('/dev/null')") == DONE
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    assert stage.sh("rain", "find /dev /tmp /var /run -type b -print 2>/dev/null || true").output == ""


@attack(
    "the kernel's own files: `sysrq-trigger`, `core_pattern`, `release_agent`, kernel parameters, control groups",
    stopped_by="`/proc/sys` and `/sys` are read-only, and belong to root",
)
def test_files_of_the_kernel(stage: Stage) -> None:
    paths = [
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/cgroup.procs",
    ]
    said = stage.attempt("rain", *(f"write('{path}')" for path in paths))
    assert {
        each for each, outcome in said.items() if outcome not in {"EACCES", "EPERM", "EROFS", "ENOENT"}
    } == set()


@attack(
    "writing to the image: programs, `/etc/passwd`, the loader's configuration",
    stopped_by="a read-only root, and files that belong to root",
)
def test_the_image(stage: Stage) -> None:
    paths = ["/usr/bin/new", "/etc/passwd", "/etc/ld.so.preload", "/new", "/root/new", "/usr/lib/new"]
    said = stage.attempt("rain", *(f"write('{path}', os.O_WRONLY | os.O_CREAT)" for path in paths))
    assert set(said.values()) <= {"EROFS", "EACCES"}


@attack(
    "raw packets: ICMP, Ethernet frames; a device of the network",
    stopped_by="no capabilities; a container has no network besides",
)
def test_raw_packets(stage: Stage) -> None:
    said = stage.attempt(
        "rain",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)",
        "socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "os.open('/dev/net/tun', os.O_RDWR)",
    )
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    if stage.is_docker:
        assert stage.sh("rain", "ls /sys/class/net").output.split() == ["lo"]


@attack(
    "what would be the keys to the host: engines' sockets, a service account's token, any socket at all",
    stopped_by="they are not there",
)
def test_keys_to_the_host(stage: Stage) -> None:
    for agent in AGENTS:
        found = stage.sh(
            agent,
            "find / -path /proc -prune -o \\( -type s -o -name '*docker.sock' -o -name 'containerd.sock' "
            "-o -name token -o -path '*/secrets/kubernetes.io' -o -name kubeconfig \\) -print 2>/dev/null || true",
        )
        assert found.output == ""
