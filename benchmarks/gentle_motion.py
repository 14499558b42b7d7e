"""Search for waypoints that load no servo near its overload; prints them in the form of excitation.yaml.

python benchmarks/gentle_motion.py --waypoints 31 --seed 1 --speed-factor 0.4 --dwell 0.2

The search adds one waypoint after the other. Among random candidates from which the arm can also return
home, it takes the one that adds most information per second (D-optimality). Currents are those of the nominal model
with the friction of published gears. Every leg keeps the free space of the shipped scene and avoids self-collision. The
servos' load is accumulated from the start of the motion.
"""

import argparse
from dataclasses import dataclass, field

import numpy as np

from dynid.control.motion_check import model_torques
from dynid.control.safe_box import SafeBox, scene_of
from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError
from dynid.hardware.safety.overload import OverloadModel
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.excitation_schema import WaypointMotion
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory

HOME = np.array([0.0, 0.0, 0.0, -20.0, 0.0, 0.0, 0.0, 0.0])  # deg: almost upright
LOWER = np.array([-75.0, -45.0, -75.0, -135.0, -92.0, -80.0, -92.0, 0.0])
UPPER = np.array([75.0, 45.0, 75.0, -12.0, 92.0, 80.0, 92.0, 75.0])
STEP_S, REGRESSOR_EVERY, SCENE_EVERY = 0.01, 4, 3
MOST_LOAD, ROOM_M = 0.5, 0.02  # share of the overload that trips; clearance in addition to the scene's margin [m]
CANDIDATES, CLOSED_HAND = 80, 0.2  # number of candidates per waypoint; share of them with a closed hand
PRIOR = 1e-6
Samples = tuple[FloatArray, FloatArray, FloatArray]  # q, dq, ddq, (N, n) each


@dataclass(eq=False)
class Search:
    """Search for waypoints of CRANE-X7, with the checks that accept or reject a leg."""

    speed_factor: float
    dwell_s: float
    load: FloatArray = field(default_factory=lambda: np.zeros(len(HOME)))

    def __post_init__(self) -> None:
        self.robot = load_robot("crane_x7")
        self.model, self.excitation = ArmModel.of(self.robot), load_excitation(self.robot)
        phi = self.model.base_parameters(load_nominal(self.robot, self.model.mdh, self.model.regrouping.standard))
        self.torques = model_torques(self.model, phi, gear_friction(self.robot, "M6"))
        scene, overload = scene_of(self.robot), OverloadModel.of(self.robot)
        if scene is None or overload is None:
            raise ConfigurationError(f"{self.robot.folder} lacks scene.yaml or motors.yaml: nothing to keep within")
        self.box, self.collision, self.overload = SafeBox(self.robot, scene), SelfCollision(self.robot), overload
        self.information = PRIOR * np.eye(len(self.model.names))

    def motion(self, *waypoints: FloatArray) -> Trajectory:
        """Return the motion through waypoints (n,) [deg]."""
        rows = tuple(tuple(map(float, row)) for row in waypoints)
        settings = WaypointMotion(waypoints_deg=rows, speed_factor=self.speed_factor, dwell_s=self.dwell_s)
        return self.excitation.through_waypoints("gentle", settings)

    def loads(
        self, motion: Trajectory, load: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray, FloatArray]]:
        """Return the overload share of each servo along a motion, (N, n), and the motion's samples q, dq, ddq."""
        samples = motion.sample_all(np.arange(0.0, motion.duration, STEP_S))
        return self.overload.along(load, self.torques(*samples) / self.robot.joint_constants, STEP_S), samples

    def added(self, samples: Samples) -> FloatArray:
        """Return the information matrix of one motion's samples, with rows weighted by the torque per ampere."""
        W = self.model.regressor(*(x[::REGRESSOR_EVERY] for x in samples)) / self.robot.joint_constants[:, None]
        flat = W.reshape(-1, W.shape[-1])
        return np.asarray(flat.T @ flat)

    def judged(self, here: FloatArray, there: FloatArray) -> tuple[float, FloatArray, FloatArray] | None:
        """Return gain per second, information and load of a leg; None if it violates a limit or has no way home."""
        leg, home = self.motion(here, there), self.motion(there, HOME)
        loads, samples = self.loads(leg, self.load)
        back, on_the_way_back = self.loads(home, loads[-1])
        if max(loads.max(), back.max()) > MOST_LOAD:
            return None
        q = np.vstack([samples[0][::SCENE_EVERY], on_the_way_back[0][::SCENE_EVERY]])
        if self.box.shortfall(q, np.zeros(len(HOME))).max() > -ROOM_M or any(
            self.collision.contact_at(row) is not None for row in q
        ):
            return None
        added = self.added(samples)
        gain = np.linalg.slogdet(self.information + added)[1] - np.linalg.slogdet(self.information)[1]
        return gain / leg.duration, added, loads[-1]

    def run(self, count: int, seed: int) -> list[FloatArray]:
        """Return `count` waypoints [deg] that start and end at the home posture."""
        random, points = np.random.default_rng(seed), [HOME]
        while len(points) < count:
            drawn = np.round(random.uniform(LOWER, UPPER, (CANDIDATES, len(HOME))))
            drawn[random.random(CANDIDATES) < CLOSED_HAND, -1] = 0.0
            judged = [(one, found) for one in drawn if (found := self.judged(points[-1], one)) is not None]
            if not judged:
                raise SystemExit(f"no way on after {len(points)} waypoints: another seed, or a lower speed factor")
            best, (_, added, self.load) = max(judged, key=lambda pair: pair[1][0])
            self.information = self.information + added
            points.append(best)
        return [*points, HOME]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waypoints", type=int, default=31)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed-factor", type=float, default=0.4)
    parser.add_argument("--dwell", type=float, default=0.2)
    arguments = parser.parse_args()
    search = Search(arguments.speed_factor, arguments.dwell)
    points = search.run(arguments.waypoints, arguments.seed)
    loads, samples = search.loads(search.motion(*points), np.zeros(len(HOME)))
    condition = np.linalg.cond(search.added(samples)) ** 0.5
    print(
        f"# {len(samples[0]) * STEP_S:.1f} s, most of an overload {loads.max():.2f}, condition number {condition:.0f}"
    )
    for row in points:
        print(f"      - [{', '.join(f'{angle:.0f}' for angle in row)}]")


if __name__ == "__main__":
    main()
