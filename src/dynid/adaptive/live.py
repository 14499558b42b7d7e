"""Online estimate of parameters while the recording grows, before there is enough data for an identification.

Every parameter has a prior value, such as that of the nominal arm. The estimate keeps this value until the data
determine the parameter. The prior friction law is taken from the previous model, or else from the robot's
friction.yaml. If neither states it, a law of only viscous and Coulomb friction with uncertain prior values is used.
Friction is linearised at the prior values.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.data.preprocessing import filter_reach_s, preprocess_piece
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.gear_fit import KnownGears, Point, start_law
from dynid.identification.estimators.gear_ladder import LADDER
from dynid.identification.estimators.recursive import RecursiveRegression
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import SYMBOLS, TERMS, FrictionLaw
from dynid.robot import FloatArray

WITH_GEAR_DATA, WITHOUT_GEAR_DATA = "quadratic", "Coulomb-viscous"  # friction structures with and without gear data
FRICTION_SHARE = 0.5  # prior relative deviation of friction
LEAST_FRICTION = {"N*m": 0.05, "1": 0.03, "1/(N*m)": 0.005}  # minimum prior deviation of friction by unit
UNKNOWN_FRICTION = {"N*m": 1.0}  # prior deviation without gear data, by unit
FEWEST = 10  # minimum number of samples per update


@dataclass(frozen=True, eq=False)
class LiveEstimate:
    """State of the recursive estimate of base parameters and friction.

    Attributes:
        settings: settings of the identification.
        regression: recursive regression of all samples whose filtered values are final, since later data do not affect
            them.
        taken: number of sampling times, counted from the start of `signals.window`, that `regression` contains.
        latest: `regression` with the last samples added, whose filtered values are provisional.
    """

    settings: IdentificationSettings
    regression: RecursiveRegression
    taken: int
    latest: RecursiveRegression

    @classmethod
    def begin(
        cls,
        model: ArmModel,
        settings: IdentificationSettings,
        nominal: tuple[FloatArray, FrictionLaw | None],
        deviations: FloatArray,
        sigma: FloatArray,
    ) -> "LiveEstimate":
        """Return the estimate before any data, from prior knowledge.

        Args:
            model: the arm.
            settings: settings of the identification.
            nominal: prior base parameters (p,) [SI], and the prior friction law or None if friction is unknown.
            deviations: standard deviations of the prior base parameters, (p,) [SI].
            sigma: expected standard deviation of each axis's torque residuals, (n,) [N m].
        """
        coulomb, (phi, law) = settings.coulomb_friction, nominal
        name = WITHOUT_GEAR_DATA if law is None else WITH_GEAR_DATA
        structure = replace(next(one for one in LADDER if one.name == name), drift=False, shared=SYMBOLS)
        start = start_law(model.axes, coulomb.transition_rad_s) if law is None else law
        known = KnownGears(structure, Point(phi, replace(start, transition_rad_s=coulomb.transition_rad_s)))
        regression = RecursiveRegression.begin(model, coulomb, known, weights=1.0 / sigma)
        regression = replace(regression, with_standing=False)
        friction = []
        for one in regression.parameters:
            least = (LEAST_FRICTION if law is not None else UNKNOWN_FRICTION)[TERMS[one.term].unit]
            friction.append(max(least, FRICTION_SHARE * abs(float(start.values[one.term, one.axes[0]]))))
        regression = regression.with_prior(phi, deviations, np.array(friction))
        return cls(settings, regression, 0, regression)

    def updated(self, signals: Signals) -> "LiveEstimate":
        """Return the estimate after the new part of a growing recording is added.

        `signals` contains the whole recording so far, not only the new part. The evaluated interval, `signals.window`,
        must start at the same time in every call.

        Raises:
            DataError: the signals cannot be used.
        """
        assert signals.window is not None
        begin, step = signals.window[0], self.settings.sampling_interval_s
        last = float(signals.time[-1])
        complete = int(np.floor((last - filter_reach_s(self.settings) - begin) / step + 1e-9))
        regression, taken = self.regression, self.taken
        if complete - taken >= FEWEST:
            window = (begin + taken * step, begin + (complete - 1) * step)
            regression, taken = regression.updated(preprocess_piece(signals, self.settings, window)), complete
        if last - filter_reach_s(self.settings) / 3.0 - (begin + taken * step) < (FEWEST + 1) * step:
            return LiveEstimate(self.settings, regression, taken, regression)
        tail = preprocess_piece(signals, self.settings, (begin + taken * step, last))
        return LiveEstimate(self.settings, regression, taken, regression.updated(tail))

    def model(self) -> tuple[FloatArray, FrictionLaw]:
        """Return the estimated base parameters (p,) [SI], and the law of friction terms that are not among them."""
        solution = self.latest.solve()
        return solution.phi, self.latest.law(solution)
