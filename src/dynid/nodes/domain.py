"""Private ROS domains, which keep two runs on one machine apart."""

import os
import random
import socket

from dynid.errors import NodeError

# UDP ports of a domain by DDSI-RTPS 2.5, 9.6.2.4. Up to domain 101 they stay below Linux's ephemeral ports.
DDS_BASE_PORT, DDS_PORTS_PER_DOMAIN, DDS_FIRST_PARTICIPANT = 7400, 250, 10
LARGEST_DOMAIN = 101
DOMAIN_VARIABLE = "ROS_DOMAIN_ID"


class PrivateDomain:
    """ROS domain that no other process on this machine uses, or the domain in ROS_DOMAIN_ID if the user has set it.

    Other processes can detect that a domain is in use only once its first node runs, seconds after the domain was
    chosen. Two runs that start together would sometimes choose the same domain, and command each other's arm. So a
    domain is reserved as soon as it is chosen, by a named socket, which the kernel frees when the process ends.

    While the domain is reserved, ROS_DOMAIN_ID names it, for this process and its children. Use it as a context
    manager, or call `release`.

    Attributes:
        number: number of the domain, as ROS_DOMAIN_ID takes it.
        chosen: whether the user chose the domain by ROS_DOMAIN_ID; other processes may then use it, too.

    Raises:
        NodeError: every domain is in use.
    """

    def __init__(self) -> None:
        self._reservation: socket.socket | None = None
        self.chosen = bool(os.environ.get(DOMAIN_VARIABLE))
        self.number = os.environ.get(DOMAIN_VARIABLE) or self._reserve()

    def _reserve(self) -> str:
        for domain in random.sample(range(1, LARGEST_DOMAIN + 1), LARGEST_DOMAIN):
            reservation = _reserved(f"domain-{domain}")
            if reservation is None:
                continue
            if _is_free(domain):
                self._reservation, os.environ[DOMAIN_VARIABLE] = reservation, str(domain)
                return str(domain)
            reservation.close()
        raise NodeError(
            f"all ROS domains from 1 to {LARGEST_DOMAIN} are in use on this machine; set {DOMAIN_VARIABLE} yourself"
        )

    def release(self) -> None:
        """End the reservation of the ROS domain and unset ROS_DOMAIN_ID; a domain that the user chose is kept."""
        if self._reservation is not None:
            del os.environ[DOMAIN_VARIABLE]
            self._reservation.close()
            self._reservation = None

    def __enter__(self) -> "PrivateDomain":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def reserve_chain(domain: str) -> socket.socket:
    """Reserve a ROS domain for one chain of nodes, until the returned socket is closed.

    Two chains in one domain would command each other's arm. `domain` is the number of the domain.

    Raises:
        NodeError: another chain runs in the domain.
    """
    reservation = _reserved(f"chain-{domain}")
    if reservation is None:
        raise NodeError(
            f"another run of dynid drives an arm in ROS domain {domain}: unset {DOMAIN_VARIABLE}, or set it to "
            "another number"
        )
    return reservation


def _reserved(name: str) -> socket.socket | None:
    """Return a Unix socket bound to an abstract name (see man 7 unix); None if another process has bound it."""
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0dynid-ros-{name}")
    except OSError:
        reservation.close()
        return None
    return reservation


def _is_free(domain: int) -> bool:
    """Return whether the domain's first discovery port is free; if so, probably no ROS process here uses the domain."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", DDS_BASE_PORT + DDS_PORTS_PER_DOMAIN * domain + DDS_FIRST_PARTICIPANT))
        except OSError:
            return False
    return True
