"""Table of the programs that design excitation motions, with their settings and the sources of these."""

from typing import NamedTuple

from benchmarks.peers.excitation import figaroh_trajectory as figaroh
from benchmarks.peers.excitation import flobaroid_settings as flobaroid

OWN = ("dynid, condition", "dynid, d_optimal")


class Designer(NamedTuple):
    """A program that designs motions.

    Attributes:
        name: name in the table.
        function: module and function of this folder that run it.
        settings: its settings.
        source: where these come from.
        elsewhere: whether the function runs in the peers' Python instead of dynid's.
    """

    name: str
    function: str
    settings: str
    source: str
    elsewhere: bool = False


DESIGNERS = (
    Designer(OWN[0], "dynid_own.condition", "defaults of `dynid excite optimised`", "src/dynid/excitation"),
    Designer(OWN[1], "dynid_own.d_optimal", "the same with --objective d_optimal", "src/dynid/excitation"),
    Designer(
        "figaroh",
        "figaroh_trajectory.design",
        f"segments of {figaroh.SEGMENT_S:g} s, waypoints every {figaroh.STEP_S:g} s, condition number with friction, "
        f"rotor inertia and offset; soft_lim {figaroh.SOFT_LIMIT:g}, {figaroh.ATTEMPTS} segment_attempts of at most "
        f"{figaroh.ITERATIONS} iterations, {figaroh.RATE_HZ:g} Hz, "
        f"collision_margin {figaroh.MARGIN_M:g} m (default 0.01, which this arm never keeps), collision_screen "
        f"{figaroh.SCREEN_M:g} m",
        "figaroh-examples: waypoints and segment_duration of examples/ur10/config/ur10_unified_config.yaml, two "
        "segments as in examples/tiago/optimal_trajectory.py; collision as figaroh.optimal.config explains",
        True,
    ),
    Designer(
        "FloBaRoID",
        "flobaroid_trajectory.design",
        f"bounded trajectory, {flobaroid.FEWEST} to {flobaroid.MOST} harmonics of about "
        f"{flobaroid.PULSE_RAD_S:g} rad/s, at most {flobaroid.ITERATIONS} iterations of IPOPT with analytical "
        f"gradients, friction columns, {flobaroid.RATE_HZ:g} Hz, capsules of {flobaroid.CAPSULES:g} of their "
        "radius; speed limits lower by the excess that it tolerates; whole periods that fill the duration, without its "
        "ramps from and to the zero posture; without the search by Optuna, which found worse motions in the same time",
        "FloBaRoID: excitation/README.md, configs/walkman_left_arm.yaml, harmonics of kuka_lwr4.yaml",
    ),
)
