"""What the middleware does unless the user chose otherwise. Launch files load this file by its path.

Discovery on this machine only: an arm is not to be commanded by a neighbour. And no shared memory between processes:
when Fast DDS opens a port of it, it may wait for 333 ms under the lock that every publisher of the process needs
(Fast-DDS issue 6535), and a driver that stalls for that long has lost its arm. ROS adds shared memory to localhost
discovery whatever its settings are, so a profile takes the place of both.
"""

from collections.abc import Mapping
from pathlib import Path

PROFILE_FILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")  # as the version names it
TRANSPORTS, RANGE = "FASTDDS_BUILTIN_TRANSPORTS", "ROS_AUTOMATIC_DISCOVERY_RANGE"
LOCALHOST_PROFILE = Path(__file__).with_name("localhost_udp.xml")


def middleware_defaults(environment: Mapping[str, str], rmw: str) -> dict[str, str]:
    """Return the variables to set for a process with this environment and this implementation of rmw.

    Applied to an environment that has them already, it returns the same ones.
    """
    asked = environment.get(RANGE) or "LOCALHOST"
    profiles = {environment.get(name) for name in PROFILE_FILES} - {None, ""}
    if profiles == {str(LOCALHOST_PROFILE)} and asked in ("LOCALHOST", "SYSTEM_DEFAULT"):
        profiles, asked = set(), "LOCALHOST"  # of ours, from a parent
    chosen = bool(profiles) or bool(environment.get(TRANSPORTS))
    chosen |= environment.get("ROS_LOCALHOST_ONLY") == "1"  # rcl takes it for the range, whatever that says
    if chosen or not rmw.startswith("rmw_fastrtps"):
        return {RANGE: asked}
    if asked == "LOCALHOST":
        return {RANGE: "SYSTEM_DEFAULT", **dict.fromkeys(PROFILE_FILES, str(LOCALHOST_PROFILE))}  # as the profile says
    return {TRANSPORTS: "UDPv4"}
