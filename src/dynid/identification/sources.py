"""Where signals come from: a bag, or CSV files with their mapping. To the identification they are the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import ConfigurationError, DataError
from dynid.identification.preprocessing import Samples, preprocess, signals_of
from dynid.identification.settings import IdentificationSettings, TorqueSource, load_identification
from dynid.identification.signals import Signals
from dynid.model.dynamics import ArmModel
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import CsvRecording, is_csv, read_csv
from dynid.recording.recording import Recording, load_recording
from dynid.robot import Robot


@dataclass(frozen=True, eq=False)
class Source:
    """One recorded motion, whatever it was recorded as.

    Attributes:
        path: the bag or file.
        sha256: of its data.
        mount: how the arm was mounted.
        torque_constants: that made torques of currents [N m/A], (n,); () where torques were recorded.
        notes: what a reader of the result should know.
        both_currents: whether measured and written currents were recorded.
        read: signals in the robot's joint order, of measured or written torques; None is what the settings say.
    """

    path: Path
    sha256: str
    mount: str
    torque_constants: tuple[float, ...]
    notes: tuple[str, ...]
    both_currents: bool
    read: Callable[[TorqueSource | None], Signals]

    @property
    def name(self) -> str:
        """Name of the bag or file."""
        return self.path.name

    def samples(
        self, settings: IdentificationSettings, *, interval_s: float | None = None,
        torque_source: TorqueSource | None = None,
    ) -> Samples:  # fmt: skip
        """Samples for the regression; errors as in `preprocess`, with the name of the source."""
        try:
            return preprocess(self.read(torque_source), settings, interval_s)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error


def torque_sentence(torque_constants: tuple[float, ...], joint_names: tuple[str, ...]) -> str:
    """Which torque constants a result rests on, in words; () are torques that were recorded as such."""
    if not torque_constants:
        return (
            "Torques were recorded as torques, no torque constant was used: every parameter has the scale that the "
            "recorded torques have."
        )
    by_value: dict[float, list[str]] = {}
    for name, value in zip(joint_names, torque_constants, strict=True):
        by_value.setdefault(value, []).append(name)
    usual = max(by_value, key=lambda value: len(by_value[value]))
    others = [f"{value:g} ({', '.join(names)})" for value, names in by_value.items() if value != usual]
    listed = ", ".join([*others, f"{usual:g} (all {'others' if others else 'joints'})"])
    return (
        f"Torques are currents times these torque constants [N m/A]: {listed}. Every parameter scales with them; "
        "published values of one servo differ by up to 30 %, a run with a known mass tells (dynid torque-constants)."
    )


def load_source(
    path: Path, robot: Robot, settings: IdentificationSettings, mapping: CsvMapping | None = None
) -> Source:
    """Read a bag, or a CSV file with its mapping.

    Args:
        path: the bag or file.
        robot: the robot that it must be of.
        settings: which torque of a bag is used.
        mapping: what the columns of a CSV file are; bags need none.

    Raises:
        InputNotFoundError, DataError, ConfigurationError: it cannot be used; one sentence that says why.
    """
    if not is_csv(path):
        return _from_bag(load_recording(path, robot), robot, settings)
    if mapping is None:
        raise ConfigurationError(f"{path} is a CSV file; say with --mapping what its columns are")
    return _from_csv(read_csv(path, robot, mapping), robot)


def _from_bag(recording: Recording, robot: Robot, settings: IdentificationSettings) -> Source:
    hardware = recording.hardware
    return Source(
        path=recording.source, sha256=recording.sha256, mount=hardware.mount,
        torque_constants=hardware.torque_constants_nm_per_a, notes=recording.notes,
        both_currents=recording.applied is not None,
        read=lambda torque_source: signals_of(recording, robot, settings, torque_source),
    )  # fmt: skip


def _from_csv(recording: CsvRecording, robot: Robot) -> Source:
    signals = Signals(
        joint_names=recording.joint_names, time=recording.time, q=recording.q, torque_time=recording.time,
        tau=recording.tau, torque_limits=robot.torque_limits, dq=recording.dq,
        torque_delay_s=recording.torque_delay_s,
    )  # fmt: skip
    return Source(
        path=recording.source, sha256=recording.sha256, mount=recording.mount,
        torque_constants=recording.torque_constants, notes=recording.notes, both_currents=False,
        read=lambda _: signals,
    )  # fmt: skip


def load_sources(
    paths: Sequence[Path], robot: Robot, settings: IdentificationSettings, mapping: CsvMapping | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> list[Source]:  # fmt: skip
    """Sources to identify one model from; arguments and errors as in `load_source`.

    Raises:
        DataError: they differ in mount or torque constants.
    """
    sources = []
    for path in paths:
        progress(f"reading {path.name}")
        sources.append(load_source(path, robot, settings, mapping))
    for other in sources[1:]:
        first = sources[0]
        if (first.mount, first.torque_constants) != (other.mount, other.torque_constants):
            raise DataError(
                f"{first.path} and {other.path} differ in mount or torque constants ({first.mount} and {other.mount}); "
                "identify from recordings of one setting"
            )
    return sources


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """Two runs of one arm, mounted and read in one way, and a model that has Coulomb friction, which loads change.

    Attributes:
        model: the arm as it was mounted.
        sources: of both runs.
        samples: of both runs.
    """

    model: ArmModel
    sources: tuple[Source, Source]
    samples: tuple[Samples, Samples]

    @property
    def torque_constants(self) -> tuple[float, ...]:
        """That both runs' torques were made with [N m/A]; () where torques were recorded."""
        return self.sources[0].torque_constants


def load_two_runs(
    robot: Robot, paths: tuple[Path, Path], mappings: tuple[CsvMapping | None, CsvMapping | None] = (None, None)
) -> TwoRuns:
    """Two runs to compare.

    Raises:
        DataError: the same data twice, other mounts or other torque constants; and as in `load_source`.
    """
    settings = load_identification(robot)
    first, second = (load_source(path, robot, settings, mapping) for path, mapping in zip(paths, mappings, strict=True))
    if first.sha256 == second.sha256 and mappings[0] == mappings[1]:
        raise DataError(
            f"{first.path} and {second.path} hold the same data; name a run before and one after the change"
        )
    if (first.mount, first.torque_constants) != (second.mount, second.torque_constants):
        raise DataError(
            f"{first.path} and {second.path} differ in mount ({first.mount}, {second.mount}) or torque constants "
            f"({first.torque_constants}, {second.torque_constants}): their torques are not comparable"
        )
    structure = robot.file.structure.model_copy(update={"coulomb_friction": True})
    model = ArmModel.of(robot, mount=first.mount, structure=structure)
    return TwoRuns(model, (first, second), (first.samples(settings), second.samples(settings)))
