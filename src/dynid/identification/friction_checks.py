"""Does a motion show friction well enough to tell its kinds apart, and from what rests on them?"""

import numpy as np

from dynid.identification.regression import Regression
from dynid.identification.settings import Acceptance
from dynid.identification.verdict import Check


def friction_checks(regression: Regression, limits: Acceptance, joints: tuple[str, ...]) -> tuple[Check, ...]:
    """Checks of a regression with Coulomb friction beside the base parameters or among them; () without.

    A joint that only ever moves at one speed has FV dq and FC sign(dq) in one proportion, and one that hardly leaves
    standstill shows neither; kappa(W), which knows no Coulomb friction, is fine with both.
    """
    if regression.moving is None or not regression.has_coulomb_friction:
        return ()
    seconds = regression.moving.sum(axis=0) * regression.interval_s
    idle = int(np.argmin(seconds))
    checks = [
        Check(
            name="shortest time at speed", value=float(seconds[idle]), limit=limits.time_at_speed_s, sense="at least",
            unit="s", detail=joints[idle],
        )
    ]  # fmt: skip
    shares = regression.beside_friction()
    viscous = {name: share for name, share in shares.items() if name.startswith("FV")}
    if viscous:
        least = min(viscous, key=lambda name: viscous[name])
        checks.append(
            Check(
                name="viscous friction that Coulomb friction cannot imitate", value=viscous[least],
                limit=limits.friction_separation, sense="at least", detail=least,
            )
        )  # fmt: skip
    return tuple(checks)
