"""Prior of the base parameters: the robot's nominal values, each with a standard deviation as large as the value.

A slow recording may leave some parameters undetermined. With the prior, these parameters keep their nominal values.
Their standard deviations stay as large as the values, so the result lists them as not determined. For values near 0,
the standard deviation is larger than the value (`LEAST_OF_KIND`). If parameters are undetermined but the result is not
checked on held-out torques, the prior is not used and the identification fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import load_nominal
from dynid.robot import Robot

LEAST_OF_KIND = 0.1  # standard deviation of a nominal value near 0, over the largest value of its kind
SMALLEST = 1e-3  # standard deviation if all values of a kind are 0 [SI]


def nominal_standard(robot: Robot, model: ArmModel) -> StandardParameters | None:
    """Return the robot's nominal standard parameters; None if its folder has none."""
    if not (robot.folder / robot.file.simulation.standard_parameters).is_file():
        return None
    return load_nominal(robot, model.mdh, model.regrouping.standard)


def nominal_prior(robot: Robot, model: ArmModel) -> BaseParameters | None:
    """Return the nominal base parameters of a robot, each with a standard deviation of about the size of the value.

    The result is None if the robot's folder has no nominal parameters.
    """
    nominal = nominal_standard(robot, model)
    if nominal is None:
        return None
    values = model.base_parameters(nominal).values
    kinds = [kind_and_number(name)[0] for name in model.names]
    largest = {kind: max(abs(v) for v, k in zip(values.tolist(), kinds, strict=True) if k == kind) for kind in kinds}
    floor = np.array([LEAST_OF_KIND * largest[kind] or SMALLEST for kind in kinds])
    return BaseParameters(model.names, values, np.diag(np.maximum(np.abs(values), floor) ** 2))


@dataclass(frozen=True, eq=False)
class _WithPrior:
    """Callable that returns a recording's signals together with a prior of the base parameters.

    Attributes:
        source: the recording.
        prior: base parameters with a covariance.
    """

    source: Recording
    prior: BaseParameters

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Return the recording's signals with the prior of the base parameters."""
        return replace(self.source.signals(settings), prior=self.prior)


def with_prior(sources: Sequence[Recording], prior: BaseParameters) -> list[Recording]:
    """Return copies of the recordings whose signals carry a prior of the base parameters.

    The regressions of these recordings include the prior.
    """
    return [replace(one, signals=_WithPrior(one, prior)) for one in sources]
