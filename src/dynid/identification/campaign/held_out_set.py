"""Held-out bags, prepared for fast validation of many parameter sets."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from dynid.identification.data.recordings import Portion, Several, read_recordings
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.triangles import bounded
from dynid.identification.held_out import refuse_other_constants
from dynid.identification.prediction import Motion, pooled_errors
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.mapping import Mapping
from dynid.robot import FloatArray, Robot


@dataclass(frozen=True, eq=False)
class HeldOutSet:
    """Held-out bags of one arm, prepared for the validation of many parameter sets; the set may be empty.

    Attributes:
        portions: samples of every bag, with the bag's mount (orientation of the base).
        regressions: regression of every bag, with friction if the settings estimate it. The friction terms, and the
            values at which torques are linearised, come from a fit to other data (`known` of `load`) or, without one,
            from a fit to the bag itself.
        plain: regression of every bag for the base parameters alone, without additional friction parameters.
        torque_constants: torque constants of every bag [N m/A].
        names: names of the base parameters, (p,).
        notes: remarks about the recordings.
    """

    portions: tuple[Portion, ...]
    regressions: tuple[Regression, ...]
    plain: tuple[Regression, ...]
    torque_constants: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        robot: Robot,
        bags: Several,
        settings: IdentificationSettings,
        known: KnownGears | None = None,
        mapping: Mapping = None,
    ) -> "HeldOutSet":
        """Read held-out bags and return them as a set, sampled at the interval of the settings.

        Args:
            robot: the robot that was recorded.
            bags: held-out bags, CSV files, or `Recording` objects.
            settings: settings of the identification.
            known: fit of the arm's friction to other data, whose friction terms and linearisation point are used; None
                means that friction is fitted to each bag.
            mapping: description of the columns of CSV files.

        Raises:
            InputNotFoundError: a bag does not exist.
            DataError: a bag cannot be used.
        """
        sources = read_recordings(bags, robot, mapping)
        portions = tuple(source.portion("held out", settings) for source in sources)
        arms = [ArmModel.of(robot, mount=one.mount) for one in portions]
        pairs = [(arm, one.samples) for arm, one in zip(arms, portions, strict=True)]
        return cls(
            portions,
            tuple(Regression.stack(arm, samples, settings.coulomb_friction, known) for arm, samples in pairs),
            tuple(Regression.stack(arm, samples, None) for arm, samples in pairs),
            tuple(one.torque_constants for one in sources),
            ArmModel.of(robot).names,
            tuple(f"{one.name}: {note}" for one in sources for note in one.notes),
        )

    def parted(self) -> tuple["HeldOutSet", "HeldOutSet"]:
        """Split the bags into two disjoint sets: one to choose among several models, and one to check the chosen model.

        The first set contains the second, fourth, ... bag, the second set all others. So a single bag belongs to the
        second set.
        """
        return self._of(slice(1, None, 2)), self._of(slice(0, None, 2))

    def _of(self, which: slice) -> "HeldOutSet":
        fields = {name: getattr(self, name)[which] for name in ("portions", "regressions", "plain", "torque_constants")}
        return replace(self, **fields)

    def refuse_other_constants(self, expected: tuple[float, ...]) -> None:
        """Raise DataError if a bag was recorded with other torque constants than expected, (n,) [N m/A]."""
        for one, constants in zip(self.portions, self.torque_constants, strict=True):
            refuse_other_constants(one.name, constants, expected)

    def validate(self, phi: BaseParameters, friction: FloatArray | None = None) -> tuple[Motion, ...]:
        """Return the measured and the predicted torques of every bag.

        Args:
            phi: base parameters of the prediction.
            friction: friction parameters in addition to phi, (m,); None means prediction without additional friction.
        """
        rows = self.plain if friction is None else self.regressions
        pairs = zip(self.portions, rows, strict=True)
        return tuple(Motion.of(one, one.samples.tau - own.misfit(phi.values, friction)) for one, own in pairs)

    def relative_error(self, phi: BaseParameters, friction: FloatArray | None = None) -> float:
        """Return the relative torque error || tau - tau_hat || / || tau || over all bags; NaN if the set is empty.

        Args:
            phi: base parameters of the prediction tau_hat.
            friction: friction parameters in addition to phi, (m,); None means prediction without additional friction.
        """
        return pooled_errors(self.validate(phi, friction)).relative if self.portions else float("nan")

    def direct_fit(self, *, with_friction: bool = True) -> tuple[BaseParameters, FloatArray | None]:
        """Fit the held-out bags by least squares; return base parameters, and friction parameters (m,) or None.

        No parameter set with the same friction terms has a smaller error on these bags.

        Args:
            with_friction: whether friction is fitted as well, if the settings estimate it.
        """
        own, p = self.regressions if with_friction else self.plain, len(self.names)
        rows = np.concatenate([one.judged_rows() for one in own])
        lower, upper = own[0].bounds
        found = bounded(qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]], lower, upper)
        count = own[0].friction_size
        return BaseParameters(self.names, found[count : count + p]), found[:count] if count else None
