"""Linux capabilities: which there are, and which a container has unless they are dropped."""

from typing import Final

__all__ = ["ALL", "DEFAULT", "KNOWN", "bare"]

ALL: Final = "ALL"
"""Stands for every capability, in capDrop as well as in the ceilings."""

DEFAULT: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""What Docker gives to a container."""

KNOWN: Final = frozenset(
    {
        *DEFAULT,
        "AUDIT_CONTROL",
        "AUDIT_READ",
        "BLOCK_SUSPEND",
        "BPF",
        "CHECKPOINT_RESTORE",
        "DAC_READ_SEARCH",
        "IPC_LOCK",
        "IPC_OWNER",
        "LEASE",
        "LINUX_IMMUTABLE",
        "MAC_ADMIN",
        "MAC_OVERRIDE",
        "NET_ADMIN",
        "NET_BROADCAST",
        "PERFMON",
        "SYSLOG",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_MODULE",
        "SYS_NICE",
        "SYS_PACCT",
        "SYS_PTRACE",
        "SYS_RAWIO",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "WAKE_ALARM",
    }
)
"""All of them, as capabilities(7) lists them."""


def bare(capability: str) -> str:
    """Return the name in its one spelling: upper case, without ``CAP_``."""
    return capability.upper().removeprefix("CAP_")
