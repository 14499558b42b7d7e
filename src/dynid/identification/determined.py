"""Which base parameters the data determine."""

from typing import NamedTuple

import numpy as np

from dynid.model.drive import kind_and_number
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters

WITHIN, QUANTILE = 0.1, 1.959964  # of the value; of the normal distribution, 95 % on both sides
FALLING = ("fs", "kms", "kes")  # friction that falls with speed


class Determined(NamedTuple):
    """Names of base parameters that the data determine, and of the others."""

    determined: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, base: BaseParameters, friction: FrictionLaw | None) -> "Determined | None":
        """Return which 95 % intervals lie within 10 % of the value; None without a covariance.

        Viscous friction of a joint whose friction also falls with speed is not determined: over the speeds of a motion
        a fall is nearly a line too, so both may be wrong while their sum is right.

        Args:
            base: with their covariance.
            friction: beside them.
        """
        deviations = base.standard_deviations
        if deviations is None:
            return None
        trading = set()
        if friction is not None:
            falls = np.any([friction[symbol] != 0.0 for symbol in FALLING], axis=0)
            trading = {f"FV{axis + 1}" for axis in np.flatnonzero(falls)}
        narrow = deviations * QUANTILE <= WITHIN * np.abs(base.values)
        chosen = [bool(own) and name not in trading for name, own in zip(base.names, narrow, strict=True)]
        names = [tuple(n for n, own in zip(base.names, chosen, strict=True) if own is side) for side in (True, False)]
        return cls(*names)

    @property
    def sentence(self) -> str:
        """What is determined, in words."""
        said = (
            f"The data determine {len(self.determined)} of {len(self.determined) + len(self.others)} parameters within "
            f"10 % ({', '.join(self.determined) or 'none'})"
        )
        if not self.others:
            return f"{said}."
        kinds = {kind_and_number(name)[0] for name in self.determined}
        use = ""
        if not any(kind.startswith("M") for kind in kinds):
            use = " Not even gravity is determined: record more motion of more joints."
        elif not any(kind.startswith(("XX", "YY", "ZZ", "IA")) for kind in kinds):
            use = " No inertia is determined: the model is good for gravity and friction."
        return f"{said}, and leave the others to the robot's bounds and nominal values.{use}"
