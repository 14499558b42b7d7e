"""Environment variables with dynid's settings of the ROS middleware; settings that the user has made are kept.

Launch files load this file by its path, because the package dynid need not be installed for their Python.
Nodes are discovered on this machine only, so that no other machine in the network commands the arm. Shared memory
between processes is disabled: when Fast DDS opens a shared-memory port, it may wait for 333 ms under a lock that every
publisher of the process needs (Fast-DDS issue 6535). A driver that stalls for that long loses control of its arm. With
ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, ROS would always enable shared memory. So an XML profile of Fast DDS sets both
discovery and transports instead. The profile also keeps Fast DDS from waking a thread for each published message
(`nackSupressionDuration`), which would cost as much time as the message itself.
"""

from collections.abc import Mapping
from pathlib import Path

PROFILE_FILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")  # depends on the Fast DDS version
TRANSPORTS, RANGE = "FASTDDS_BUILTIN_TRANSPORTS", "ROS_AUTOMATIC_DISCOVERY_RANGE"
LOCALHOST_PROFILE = Path(__file__).with_name("localhost_udp.xml")


def middleware_defaults(environment: Mapping[str, str], rmw: str) -> dict[str, str]:
    """Return the environment variables to set for a process, so that the ROS middleware gets dynid's settings.

    If a parent process has set these variables already, the function returns the same ones again.

    Args:
        environment: present environment variables of the process; settings that a user has made are kept.
        rmw: identifier of the middleware, such as rmw_fastrtps_cpp.
    """
    requested = environment.get(RANGE) or "LOCALHOST"
    profiles = {environment.get(name) for name in PROFILE_FILES} - {None, ""}
    if profiles == {str(LOCALHOST_PROFILE)} and requested in ("LOCALHOST", "SYSTEM_DEFAULT"):
        profiles, requested = set(), "LOCALHOST"  # set by this function in a parent process
    chosen = bool(profiles) or bool(environment.get(TRANSPORTS))
    chosen |= environment.get("ROS_LOCALHOST_ONLY") == "1"  # overrides the range in rcl
    if chosen or not rmw.startswith("rmw_fastrtps"):
        return {RANGE: requested}
    if requested == "LOCALHOST":
        # range: set by the profile
        return {RANGE: "SYSTEM_DEFAULT", **dict.fromkeys(PROFILE_FILES, str(LOCALHOST_PROFILE))}
    return {TRANSPORTS: "UDPv4"}
