"""Widths of confidence intervals: repeated updates share the confidence, and few independent windows widen them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dynid.adaptive.judgement import RecordingJudge
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.identification.estimators.uncertainty import MEMORY_S
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")


@pytest.fixture(scope="module")
def judge() -> RecordingJudge:
    return AdaptiveIdentification(ROBOT, AdaptiveSettings(longest_s=9.0, first_look_s=9.0)).judge


def test_few_windows_make_intervals_wider(judge: RecordingJudge) -> None:
    tests = int((~judge.free).sum()) + ROBOT.size
    least = float(norm.ppf(1.0 - 0.025 / tests))
    found = [judge.quantile(motion_s) for motion_s in (9.0, 15.0, 30.0, 1e6)]
    assert found == sorted(found, reverse=True) and found[0] > 1.3 * least
    assert found[-1] == pytest.approx(least, rel=1e-3)


def test_more_planned_looks_widen_intervals(judge: RecordingJudge) -> None:
    more = AdaptiveIdentification(ROBOT, AdaptiveSettings(longest_s=30.0, first_look_s=15.0)).judge
    assert more.run.looks == 6 and more.quantile(30.0) > judge.quantile(30.0)


def test_intervals_of_few_windows_reach_their_coverage_and_normal_ones_do_not(judge: RecordingJudge) -> None:
    """Means of independent windows, as many as there are parameters and joints, each with its own deviation."""
    random, windows = np.random.default_rng(2), round(9.0 / MEMORY_S)
    tests = int((~judge.free).sum()) + ROBOT.size
    drawn = random.normal(size=(2000, tests, windows))
    shares = np.abs(drawn.mean(axis=2)) / (drawn.std(axis=2, ddof=1) / np.sqrt(windows))
    held = float(np.mean(shares.max(axis=1) <= judge.quantile(9.0)))
    assert 0.93 < held < 0.97
    assert float(np.mean(shares.max(axis=1) <= norm.ppf(1.0 - 0.025 / tests))) < 0.9


def test_differing_friction_structures_widen_intervals(judge: RecordingJudge) -> None:
    off = np.zeros((2, len(judge.limits)))
    off[1, 3] = -0.4

    def found(rivals: FloatArray) -> Any:
        base = SimpleNamespace(standard_deviations=np.full(len(judge.limits), 0.1))
        beside = SimpleNamespace(ladder=SimpleNamespace(rivals=rivals))
        return SimpleNamespace(estimate=SimpleNamespace(base=base, regression=SimpleNamespace(joint_friction=beside)))

    alone, more = (judge.half_widths(found(rivals), 9.0) for rivals in (np.zeros((0, len(judge.limits))), off))
    np.testing.assert_allclose(alone, 0.1 * judge.quantile(9.0))
    np.testing.assert_allclose(more - alone, np.abs(off).max(axis=0))
