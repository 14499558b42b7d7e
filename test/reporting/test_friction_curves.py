"""Friction in the report: curves of the whole law, without load and with gravity load."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.model.friction import FrictionLaw
from dynid.model.model_file import friction_block
from dynid.reporting.friction_curves import drawings, friction_curves
from dynid.reporting.report import render_report
from dynid.reporting.result_folder import Result, open_result


def result_with(folder: Path, law: FrictionLaw | None) -> Result:
    result = open_result(folder)
    content = result.content.model_copy(update={"friction_law": friction_block(law), "coulomb_friction": None})
    return replace(result, content=content)


def test_curves_are_the_law_at_no_load_and_at_gravity_s(planar_result: Path) -> None:
    law = FrictionLaw.of(3, {"fb": 0.2, "km": 0.3, "fs": 0.1, "ws": 0.5, "a": 1.0}, 0.02)
    result = result_with(planar_result, law)
    found = friction_curves(result)
    assert found is not None
    viscous, coulomb = (
        np.array([sum(row.value for row in result.content.parameters if row.name == f"{kind}{j}") for j in (1, 2, 3)])
        for kind in ("FV", "FC")
    )
    fast = found.speed[-1]
    np.testing.assert_allclose(fast, 0.5 * result.robot.velocity_limits)
    own = (0.2 + coulomb + 0.1 * np.exp(-fast / 0.5) + viscous * fast) / 0.7  # all that flows is friction: tm = F(tm)
    np.testing.assert_allclose(found.free[-1], own, rtol=1e-9)
    more = 0.3 * found.load / 0.7
    np.testing.assert_allclose(found.loaded[-1] - found.free[-1], more, rtol=1e-9)
    assert found.load.max() > 0.0 and (found.loaded[0] < 0.0).all()


def test_report_draws_curves_per_joint_only_with_friction(planar_result: Path) -> None:
    result = result_with(planar_result, FrictionLaw.of(3, {"fb": 0.2}, 0.02))
    made = drawings(result, ["a", "b", "<c>"])
    assert len(made) == 3 and "rad/s" in made[0]["words"] and len(made[0]["free"].split()) == 121
    html = render_report(result)
    assert html.count('<svg class="friction"') == 3
    bare = result_with(planar_result, None)
    assert drawings(bare, ["a", "b", "c"]) == [] and '<svg class="friction"' not in render_report(bare)
