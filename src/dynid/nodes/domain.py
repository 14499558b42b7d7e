"""A ROS domain of one's own, so that two runs on one machine stay apart."""

import os
import random
import socket

from dynid.errors import NodeError

# DDSI-RTPS 2.5, 9.6.2.4: which UDP ports a domain uses. Up to 101, they stay below those that Linux hands out.
DDS_BASE_PORT, DDS_PORTS_PER_DOMAIN, DDS_FIRST_PARTICIPANT = 7400, 250, 10
LARGEST_DOMAIN = 101
CHOSEN = "ROS_DOMAIN_ID"


class PrivateDomain:
    """A domain that nobody else on this machine uses; the user's choice (ROS_DOMAIN_ID) wins.

    A domain shows that it is in use only once its first node runs, seconds after it was picked. Two runs that start
    together would pick the same one now and then, and command each other's arm. So a domain is reserved from the
    moment when it is picked, by the name of a socket, which the kernel frees when the process ends.

    While it is held, ROS_DOMAIN_ID names it, for this process and for those that it starts. Use it as a context
    manager, or call `release`.

    Attributes:
        number: the domain, as ROS_DOMAIN_ID takes it.
        chosen: whether the user chose it, so that others may be in it.

    Raises:
        NodeError: every domain is in use.
    """

    def __init__(self) -> None:
        self._reservation: socket.socket | None = None
        self.chosen = bool(os.environ.get(CHOSEN))
        self.number = os.environ.get(CHOSEN) or self._reserve()

    def _reserve(self) -> str:
        for domain in random.sample(range(1, LARGEST_DOMAIN + 1), LARGEST_DOMAIN):
            reservation = _reserved(f"domain-{domain}")
            if reservation is None:
                continue
            if _is_free(domain):
                self._reservation, os.environ[CHOSEN] = reservation, str(domain)
                return str(domain)
            reservation.close()
        raise NodeError(f"all ROS domains from 1 to {LARGEST_DOMAIN} are in use on this machine; set {CHOSEN} yourself")

    def release(self) -> None:
        """Let others have the domain."""
        if self._reservation is not None:
            del os.environ[CHOSEN]
            self._reservation.close()
            self._reservation = None

    def __enter__(self) -> "PrivateDomain":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def reserve_chain(domain: str) -> socket.socket:
    """Keep other chains out of a domain until the socket is closed: their nodes would command each other's arm.

    Raises:
        NodeError: a chain runs in it.
    """
    reservation = _reserved(f"chain-{domain}")
    if reservation is None:
        raise NodeError(
            f"another run of dynid drives an arm in ROS domain {domain}: unset {CHOSEN}, or set it to another number"
        )
    return reservation


def _reserved(name: str) -> socket.socket | None:
    """A socket of a name (man 7 unix, abstract sockets); None if another process holds it."""
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0dynid-ros-{name}")
    except OSError:
        reservation.close()
        return None
    return reservation


def _is_free(domain: int) -> bool:
    """Whether no participant on this machine uses a domain, as far as its first discovery port shows."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", DDS_BASE_PORT + DDS_PORTS_PER_DOMAIN * domain + DDS_FIRST_PARTICIPANT))
        except OSError:
            return False
    return True
