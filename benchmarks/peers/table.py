"""Table of the peers, with their settings and the sources of these."""

from typing import NamedTuple

OWN, TRUTH = "dynid", "(the plant itself)"


class Peer(NamedTuple):
    """Identification software; `module` runs it, or is "" if it cannot be run here, as `settings` then explains."""

    name: str
    module: str
    settings: str
    source: str


PEERS = (
    Peer(OWN, "dynid_own", "defaults of `dynid identify`", "config/crane_x7/identification.yaml"),
    Peer(
        "pinocchio, least squares",
        "pinocchio_least_squares",
        "zero-phase Butterworth filter of order 4 at 5 Hz, rows at 25 Hz, weighted by each joint's residual, "
        "rotor inertia, viscous, Coulomb and offset; undetermined parameters stay at the URDF's",
        "a script of its own: benchmarks/peers/pinocchio_least_squares.py",
    ),
    Peer(
        "pinocchio, SDP",
        "pinocchio_sdp",
        "the same rows; every pseudo-inertia positive definite, weak pull to the URDF; cvxpy with Clarabel",
        "a script of its own: benchmarks/peers/pinocchio_sdp.py, after Wensing, Kim and Slotine 2018",
    ),
    Peer(
        "figaroh",
        "figaroh_fit",
        "unified configuration; friction, actuator inertia and offset; Butterworth filter of order 4 at 5 Hz; "
        "decimation by 10; weighted least squares; select_stage physical_fit",
        "figaroh-examples: examples/ur10 and examples/tiago/config/tiago_reference_physical_fit.yaml; its 100 Hz of "
        "examples/staubli_TX40 is too high for encoders of 12 bits",
    ),
    Peer(
        "mujoco.sysid",
        "mujoco_sysid",
        "60 windows of 0.25 s from filtered states, 2 ms steps; pseudo-inertia, armature, damping and frictionloss of "
        "every joint; plain differences of positions and velocities, weak pull to the URDF; its own optimiser, at most "
        "40 iterations",
        "documentation of mujoco.sysid: parameters with bounds, several sequences; benchmarks/peers/mujoco_sysid.py",
    ),
    Peer(
        "aurt", "aurt_fit", "`aurt compile-rbd` from the arm's modified Denavit-Hartenberg parameters", "README of aurt"
    ),
    Peer(
        "FloBaRoID",
        "flobaroid_fit",
        "the filter of the scripts, rows at 100 Hz; SDP, consistent and closest to the URDF by observability, "
        "masses within 50 % of the URDF's; friction and offset in the SDP and refitted, without a pull to the URDF's",
        "FloBaRoID: configs/kuka_lwr4.yaml and documentation/TUTORIAL.md",
    ),
)
