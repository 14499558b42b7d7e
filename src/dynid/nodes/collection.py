"""Collection of several trajectories, executed in sequence and recorded into one bag each; it can be resumed.

Between two motions the arm is held at its rest posture, because without torque it would fall. The next motion waits
until the warmest servo has cooled down. At the end the arm is lowered and torque is switched off. `collection.json`
stores the settings, and `done/` has a file for every completed motion. A repeated call with the same settings resumes
an interrupted collection; an unfinished bag is kept under another name.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.documents import read_json
from dynid.errors import ConfigurationError, shown
from dynid.hardware.loop.diagnostics import SERVOS, WARMEST
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import Report
from dynid.nodes.supervisor import Supervisor, lower_arm, number
from dynid.recording.completeness import completeness
from dynid.resources import new_path, write_whole
from dynid.robot import Robot

SETTINGS = "collection.json"
REPORT_TIMEOUT_S = 20.0
COOLING_TIMEOUT_S = 3600.0
BETWEEN_S = 15.0  # approximate time between two trajectories, for the remaining time [s]


@dataclass(frozen=True)
class CollectionOptions:
    """Options of a collection of recordings.

    Attributes:
        names: trajectories in the order in which they run.
        profile: excitation profile, a set of motion limits in excitation.yaml, such as "limited".
        chain: options of the chain of nodes.
        folder: folder of bags, logs and records of completed motions.
        cool_to_deg_c: maximum temperature of the warmest servo at the start of a motion [deg C].
    """

    names: tuple[str, ...]
    profile: str
    chain: ChainOptions
    folder: Path
    cool_to_deg_c: float

    @property
    def setting(self) -> dict[str, Any]:
        """Settings that must be the same for all bags of one collection, by name.

        They are robot, profile, mount, real_port and, of the simulated arm, without (disturbances that are left out),
        seed, friction, motor (effects of the motors) and held_kg.
        """
        chain = self.chain
        return {
            "robot": chain.robot,
            "profile": self.profile,
            "mount": chain.mount,
            "real_port": chain.real_port,
            "without": list(chain.switched_off),
            "seed": chain.seed,
            "friction": chain.friction,
            "motor": list(chain.motor),
            "held_kg": chain.held_kg,
        }


class Collection:
    """Collection of recordings, one bag per trajectory, with its settings and completed motions stored in a folder.

    Raises:
        ConfigurationError: the folder holds a collection with other settings.
    """

    def __init__(self, options: CollectionOptions) -> None:
        self.options, self.folder = options, options.folder
        path = self.folder / SETTINGS
        if not path.is_file():
            write_whole(path, json.dumps(options.setting, indent=2))
            return
        stored = read_json(path)
        if not isinstance(stored, dict):
            raise ConfigurationError(f"{path} holds no JSON object; expected the settings of a collection")
        # a former version did not store all of them
        other = [name for name, value in options.setting.items() if name in stored and stored[name] != value]
        if other:
            settings = options.setting
            differences = ", ".join(f"{name} {shown(stored.get(name))}, not {shown(settings[name])}" for name in other)
            raise ConfigurationError(
                f"{self.folder} is a collection with {differences}; choose another folder or use those settings"
            )

    def bag(self, name: str) -> Path:
        """Return the path of a trajectory's bag."""
        return self.folder / "bags" / name

    def _done(self, name: str) -> Path:
        return self.folder / "done" / f"{name}.json"

    @property
    def remaining(self) -> tuple[str, ...]:
        """Names of the trajectories that are not completed, in order."""
        return tuple(name for name in self.options.names if not self._done(name).is_file())

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """Stored facts about every completed trajectory, by trajectory name and key.

        The keys are duration_s [s], states (number of states that the driver published), lost (number of these that the
        bag lacks) and missed_fraction (fraction of control cycles without a recorded state).
        """
        found = {name: self._done(name) for name in self.options.names}
        return {name: read_json(path) for name, path in found.items() if path.is_file()}

    def rename_unfinished_bag(self, name: str) -> Path | None:
        """Rename the unfinished bag of an interrupted run, if there is one; return its new path, or None."""
        unfinished = self.bag(name)
        return unfinished.rename(new_path(unfinished.with_name(f"{name}.unfinished"))) if unfinished.exists() else None

    def finish(self, name: str, duration_s: float) -> None:
        """Store that a trajectory is completed, with its duration [s] and the number of states its bag lacks."""
        found = completeness(self.bag(name))
        facts = {
            "duration_s": duration_s,
            "states": found.published,
            "lost": found.lost,
            "missed_fraction": found.missed_fraction,
        }
        write_whole(self._done(name), json.dumps(facts))


def cool_down(call: Supervisor, limit_deg_c: float, report: Report) -> None:
    """Wait, while the arm is held, until the warmest servo has cooled down to the limit [deg C].

    `report` receives the present temperature as progress.

    Raises:
        NodeError: the driver reports no temperatures, or cooling takes more than an hour.
    """

    def warmest() -> str:
        return call.reported(SERVOS, WARMEST)

    def cool() -> bool:
        report(f"cooling down: {warmest()} deg C, resuming below {limit_deg_c:g}", 0.0, 0.0)
        return number(warmest()) <= limit_deg_c

    call.wait(lambda: bool(warmest()), REPORT_TIMEOUT_S, "a report of all servos' temperatures")
    call.wait(cool, COOLING_TIMEOUT_S, f"cooling down to {limit_deg_c:g} deg C")


def run_collection(
    robot: Robot,
    options: CollectionOptions,
    durations: dict[str, float],
    report: Report,
    tell: Callable[[str], None],
    make: Callable[[Robot, ChainOptions, Path], Chain] = Chain,
) -> Collection:
    """Execute and record the trajectories that are not completed yet, and return the collection.

    Args:
        robot: robot of the collection.
        options: trajectories, chain, folder and temperature limit.
        durations: duration of each trajectory by name [s].
        report: receives the progress of the motion under way.
        tell: receives a sentence for every unfinished bag that is renamed, and for every motion that starts; the latter
            states the remaining time of the whole collection.
        make: creates the chain of nodes from the robot, its options and a folder for logs.

    Raises:
        ConfigurationError: the folder holds a collection with other settings.
        NodeError: a node refused, a motion was cancelled, or the arm does not cool down. Completed motions are kept.
    """
    collection = Collection(options)
    names = collection.remaining
    if not names:
        return collection
    with make(robot, options.chain, new_path(options.folder / "logs" / "run")) as chain:
        chain.bring_up()
        for index, name in enumerate(names):
            if (renamed := collection.rename_unfinished_bag(name)) is not None:
                tell(f"the incomplete recording of {name} is kept as {renamed.name}")
            cool_down(chain.supervisor, options.cool_to_deg_c, report)
            remaining_s = sum(durations[one] + BETWEEN_S for one in names[index:])
            tell(f"{name}: {index + 1} of {len(names)}, about {remaining_s / 60:.0f} min remain")
            duration = chain.run_trajectory(name, options.profile, collection.bag(name), report)
            collection.finish(name, duration)
        report("bringing the arm to rest", 0.0, 0.0)
        lower_arm(chain.supervisor)
    return collection
