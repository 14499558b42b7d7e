"""Base parameters that the data determine: those with a 95 % confidence interval of at most +-10 % of the value."""

from typing import NamedTuple

import numpy as np

from dynid.model.drive import kind_and_number
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters

RELATIVE_HALF_WIDTH, QUANTILE = 0.1, 1.959964  # half width over value; two-sided 95 % quantile of the normal law
DECREASING_TERMS = ("fs", "kms", "kes")  # friction coefficients of terms that decrease with speed


class Determined(NamedTuple):
    """Names of the base parameters that the data determine within 10 %, and names of all other base parameters."""

    determined: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, base: BaseParameters, friction: FrictionLaw | None) -> "Determined | None":
        """Return the names of the determined and of all other base parameters; None if their covariance is not known.

        A parameter is determined if its 95 % confidence interval is at most +-10 % of its value. A
        parameter with standard deviation 0 does not count as determined, because its value does not come from the data:
        it is at a bound, was known before, or was set to zero by the estimator. Viscous friction never counts as
        determined if the joint's friction law also has a term that decreases with speed. Over the speeds of a motion
        this decrease is nearly linear. Errors of both terms may therefore cancel in the fit.

        Args:
            base: base parameters with their covariance.
            friction: friction law in addition to the base parameters; None if there is none.
        """
        deviations = base.standard_deviations
        if deviations is None:
            return None
        trading = set()
        if friction is not None:
            falls = np.any([friction[symbol] != 0.0 for symbol in DECREASING_TERMS], axis=0)
            trading = {f"FV{axis + 1}" for axis in np.flatnonzero(falls)}
        narrow = (deviations > 0.0) & (deviations * QUANTILE <= RELATIVE_HALF_WIDTH * np.abs(base.values))
        chosen = [bool(own) and name not in trading for name, own in zip(base.names, narrow, strict=True)]
        names = [tuple(n for n, own in zip(base.names, chosen, strict=True) if own is side) for side in (True, False)]
        return cls(*names)

    @property
    def sentence(self) -> str:
        """Sentence that lists the determined parameters."""
        text = (
            f"The data determine {len(self.determined)} of {len(self.determined) + len(self.others)} parameters within "
            f"10 % ({', '.join(self.determined) or 'none'})"
        )
        if not self.others:
            return f"{text}."
        kinds = {kind_and_number(name)[0] for name in self.determined}
        use = ""
        if not any(kind.startswith("M") for kind in kinds):
            use = " Not even gravity is determined: record more motion of more joints."
        elif not any(kind.startswith(("XX", "YY", "ZZ", "IA")) for kind in kinds):
            use = " No inertia is determined: the model is good for gravity and friction."
        return f"{text}, and leave the others to the robot's bounds and nominal values.{use}"
