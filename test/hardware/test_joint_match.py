"""Which servo moves which joint: found on a simulated line while a simulated hand moves an arm without torque."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geared_arms import variant
from hand_moved import (
    BAUDRATE,
    JOINT_PARTS,
    LYING,
    ZERO,
    Hand,
    InstantClock,
    fields,
    good_paths,
    guided,
    moved,
    path,
    proposed,
    real_arm,
)
from plain_bus import IndependentAxesPlant, running_bus

from dynid.errors import DataError
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.startup.hand_motions import HandMotions, RecordedServo
from dynid.hardware.startup.hand_session import record_guided, watched_line
from dynid.hardware.startup.joint_match import Matcher, match_recording
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

SECOND = np.array([0.0, 1.0, 0.0])


@pytest.fixture
def mine(tmp_path: Path) -> Robot:
    """The arm as its owner believes that it is: servos 1, 2, 3 in joint order, no signs, all centres 2048."""
    return variant("direct", tmp_path / "mine")


# -- found right -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_swapped_reversed_and_shifted_servos_are_found(mine: Robot, tmp_path: Path) -> None:
    motions, texts = guided(mine, real_arm(tmp_path))
    proposal = proposed(mine, motions)
    wanted = [(3, 1, False), (1, -1, True), (2, 1, False)]
    assert fields(proposal, "servo_id", "direction", "reverse_mode") == wanted
    assert fields(proposal, "centre_count")[:2] == [(None,), (None,)]
    assert proposal.blocks["joints"][2]["centre_count"] == pytest.approx(1500, abs=1)
    assert proposal.joints[2].zero_error_deg == pytest.approx((2048 - 1500) * 360 / 4096, abs=0.1)
    assert proposal.oddities == () and not any("not accepted" in text for text in texts)


def test_blocks_replace_those_of_robot_yaml(mine: Robot, tmp_path: Path) -> None:
    """The driver's own conversion with the new file gives the true posture."""
    real = real_arm(tmp_path)
    motions, _ = guided(mine, real)
    proposal = proposed(mine, motions)
    new = variant("direct", tmp_path / "new", **proposal.blocks)
    assert new.servo_ids == real.servo_ids and new.wired_servos == real.wired_servos
    assert not [text for one in proposed(new, motions).joints for text in one.changes]


def test_gears_that_invert_or_reduce_are_taken_into_account(tmp_path: Path) -> None:
    mine = variant("geared", tmp_path / "mine")
    motions, _ = guided(mine, real_arm(tmp_path, "geared"))
    proposal = proposed(mine, motions)
    wanted = [(3, 1, False), (1, -1, True), (2, 1, False)]
    assert fields(proposal, "servo_id", "direction", "reverse_mode") == wanted
    assert np.sign([one.turned_deg for one in proposal.joints]).tolist() == [-1.0, -1.0, -1.0]
    assert proposal.blocks["joints"][2]["centre_count"] == pytest.approx(1500, abs=1)


def test_a_zero_that_a_hand_cannot_improve_is_kept(mine: Robot, tmp_path: Path) -> None:
    real = real_arm(tmp_path, fields=({"servo_id": 1}, {"servo_id": 2}, {"servo_id": 3}))
    tilted = np.deg2rad([2.0, -3.0, 4.0])
    motions, _ = guided(mine, real, [*good_paths()[:3], path(LYING, tilted, tilted)])
    proposal = proposed(mine, motions)
    assert not [text for one in proposal.joints for text in one.changes] and not proposal.oddities
    assert [one.zero_error_deg for one in proposal.joints] == pytest.approx([-2.0, 3.0, -4.0], abs=0.1)


def test_an_own_zero_offset_is_part_of_the_zero(mine: Robot, tmp_path: Path) -> None:
    rows = [{"zero_offset_rad": 0.4}, {}, {}]
    real = real_arm(tmp_path, fields=[a | {"servo_id": k + 1} for k, a in enumerate(rows)])
    motions, _ = guided(mine, real)
    assert not [text for one in proposed(real, motions).joints for text in one.changes]
    assert "centre_count: None -> 1787" in " ".join(proposed(mine, motions).joints[0].changes)


def test_a_stop_with_known_angles_serves_as_the_pose(mine: Robot, tmp_path: Path) -> None:
    stop = np.deg2rad([-60.0, 0.0, 0.0])
    motions, _ = guided(mine, real_arm(tmp_path), [*good_paths()[:3], path(LYING, stop, stop)])
    assert fields(proposed(mine, motions, stop), "servo_id", "centre_count")[:2] == [(3, None), (1, None)]


def test_a_servo_in_position_mode_may_pass_its_turn(mine: Robot, tmp_path: Path) -> None:
    """The count jumps from 4095 to 0 while the joint turns."""
    recorded, _ = guided(mine, real_arm(tmp_path))
    wrapped = [tuple((count + 2050) % 4096 for count in row) for row in recorded.counts]
    motions = recorded.model_copy(update={"counts": tuple(wrapped)})
    assert [one.turned_deg for one in match_recording(mine, motions)[0]] == pytest.approx([22, -22, 22], abs=0.2)


def test_servos_that_move_no_joint_become_other_ids(mine: Robot, tmp_path: Path) -> None:
    two = variant("direct", tmp_path / "named", bus={"cycle_s": 0.002, "other_ids": [9]})
    motions, _ = guided(mine, real_arm(tmp_path))
    extra = (*motions.servos, *(RecordedServo(servo_id=one, model_number=1020) for one in (9, 12)))
    counts = tuple((*row, 5, 6) for row in motions.counts)
    proposal = proposed(two, motions.model_copy(update={"servos": extra, "counts": counts}))
    assert proposal.blocks["bus"]["other_ids"] == [9, 12]
    assert "moved no joint" in proposal.oddities[0] and ": 12;" in proposal.oddities[0]


# -- several servos of one joint -------------------------------------------------------------------------------


def doubled(folder: Path, **second: Any) -> Robot:
    """Return an arm whose second joint has servo 11 as well."""
    return real_arm(folder, fields=({"servo_id": 1}, {"servo_id": 2, **second}, {"servo_id": 3}))


def test_a_shadow_is_found_by_its_secondary_id(mine: Robot, tmp_path: Path) -> None:
    real = doubled(tmp_path, shadow_ids=[11], reverse_mode=True)
    proposal = proposed(mine, guided(mine, real)[0])
    found = fields(proposal, "servo_id", "shadow_ids", "reverse_mode", "direction")
    assert found[1] == (2, [11], True, 1) and not proposal.oddities


def test_a_pair_that_robot_yaml_names_is_found_with_its_centre(tmp_path: Path) -> None:
    pair = {"servo_id": 11, "direction": -1}
    real = doubled(tmp_path / "a", paired=[pair | {"centre_count": 1000}])
    mine = doubled(tmp_path / "b", paired=[pair])
    (own,) = proposed(mine, guided(mine, real)[0]).blocks["joints"][1]["paired"]
    assert own["servo_id"] == 11 and own["direction"] == -1 and own["centre_count"] == pytest.approx(1000, abs=1)
    assert proposed(real, guided(real, real)[0]).joints[1].changes == ()


def shadowed(mine: Robot, turned: float, **changes: Any) -> HandMotions:
    """Return motions of an arm whose joint 2 has the shadow 11, which turns by a share of its first servo's motion."""
    rows = np.vstack([*good_paths()])
    counts = 2048 + np.rint(np.rad2deg(rows) * 4096 / 360).astype(int)
    counts = np.column_stack([counts, 2048 + np.rint(turned * (counts[:, 1] - 2048)).astype(int)])
    ends = np.cumsum([0, *(len(one) for one in good_paths())])
    ends[-2] += JOINT_PARTS  # the pose is the standstill after the way to it
    servos = [RecordedServo(servo_id=one, model_number=1020, reverse_mode=one == 2) for one in (1, 2, 3)]
    shadow = RecordedServo(**{"servo_id": 11, "model_number": 1020, "obeys": 2} | changes)
    starts = [0, *ends[1:-2], ends[-2]]
    steps = list(zip(starts, [*ends[1:-2], ends[-2] - JOINT_PARTS, ends[-1]], strict=False))
    return HandMotions(
        baudrate=1_000_000,
        servos=(*servos, shadow),
        time_s=tuple((np.arange(len(rows)) * 0.05).tolist()),
        counts=tuple(map(tuple, counts.tolist())),
        steps=tuple((int(a), int(b)) for a, b in steps),
    )


@pytest.mark.parametrize(
    ("turned", "changes", "said"),
    [
        (0.0, {}, r"servo 11 obeys servo 2, but turned by .*does not move joint 2 \(joint_2\); clear its secondary ID"),
        (-1.0, {}, r"servo 11 obeys servo 2, .*they would pull against each other; correct bit 0 of its drive mode"),
        (1.0, {"reverse_mode": True}, "both have the same reverse mode: .*make it a pair"),
        (1.0, {"obeys": None}, r"servo 2 \(\+22 deg\) and servo 11 \(\+22 deg\) turned while joint 2 .* under paired"),
        (1.0, {"obeys": None, "homing_offset": 60}, "servo 11 has homing offset 60, which shifts its zero"),
    ],
)
def test_second_servos_that_do_not_fit_are_refused(
    mine: Robot, turned: float, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        match_recording(mine, shadowed(mine, turned, **changes))


def test_a_shadow_that_fits_is_accepted(mine: Robot) -> None:
    assert fields(proposed(mine, shadowed(mine, 1.0)), "shadow_ids") == [([],), ([11],), ([],)]


def test_a_pair_with_the_wrong_direction_is_refused(tmp_path: Path) -> None:
    mine = doubled(tmp_path, paired=[{"servo_id": 11, "direction": -1}])
    with pytest.raises(DataError, match=r"is paired with servo 2, .*correct its direction"):
        match_recording(mine, shadowed(mine, 1.0, obeys=None))


def test_a_shadow_of_a_shadow_is_refused(mine: Robot) -> None:
    servos = [
        RecordedServo(servo_id=one, model_number=1020, obeys=obeyed) for one, obeyed in ((1, None), (2, 1), (3, 2))
    ]
    with pytest.raises(DataError, match="servo 3 obeys servo 2, which obeys servo 1: one servo of a joint commands"):
        Matcher(mine, servos)


# -- wrong evidence --------------------------------------------------------------------------------------------

WRONG = {
    "not moved": (
        moved(1, 4.0),
        r"no servo turned by 10 deg while joint 2 \(joint_2\) was to be moved \(most: servo 1, 4",
    ),
    "two moved": (moved(1, 22.0, 0.9), r"servo 1 \(-22 deg\) and servo . \(\+20 deg\) turned while joint 2"),
    "dragged": (moved(1, 22.0, 0.4), r"turned while joint 2 \(joint_2\) was to be moved alone: hold the other joints"),
    "both ways": (
        path(LYING, LYING + 0.3 * SECOND, LYING - 0.3 * SECOND),
        r"joint 2 \(joint_2\) was moved both ways: servo 1 turned by \+17 and -17 deg",
    ),
    "same joint again": (moved(0, 22.0), r"servo 3 turned at joint 2 .*turned at joint 1 \(joint_1\) before"),
    "too far": (
        path(LYING, *(LYING + part * SECOND for part in (1.35, 2.7, 1.35, 0.0))),
        "turned by 155 deg while joint 2 .* and its range is 120 deg at the servo: another joint was moved",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_ambiguous_motions_are_refused_and_asked_for_again(mine: Robot, tmp_path: Path, case: str) -> None:
    wrong, said = WRONG[case]
    paths = good_paths()
    motions, texts = guided(mine, real_arm(tmp_path), [paths[0], wrong, *paths[1:]])
    refused = [text for text in texts if text.startswith("not accepted: ")]
    assert len(refused) == 1 and re.search(said, refused[0]), refused
    assert fields(proposed(mine, motions), "servo_id") == [(3,), (1,), (2,)]


class Trembling(IndependentAxesPlant):
    """An arm whose first joint trembles while it is held by an uncertain hand."""

    trembles = 0

    def measure(self) -> Any:
        if self.trembles:
            self.trembles -= 1
            self.q[0] += 0.01
        return super().measure()


def test_a_pose_that_is_not_held_still_is_read_again(mine: Robot, tmp_path: Path) -> None:
    real = real_arm(tmp_path)
    plant = Trembling(real, q=LYING)

    class Uncertain(Hand):
        def confirmed(self) -> bool:
            done = super().confirmed()
            if done and self.texts[-1].startswith("pose") and not any("not accepted" in one for one in self.texts):
                plant.trembles = 10
            return done

    with (
        running_bus(EmulatedServoBus(real, plant, lock_step=True, baudrate=BAUDRATE)) as bus,
        watched_line(ServoBus(bus.port, BAUDRATE, ()), InstantClock()) as line,
    ):
        hand = Uncertain(plant, [*good_paths(), path(ZERO, ZERO)])
        motions = record_guided(line, Matcher(mine, line.servos), hand, "the zero pose")
    assert any("servo 3 turned by" in text and "hold the arm still for a second" in text for text in hand.texts)
    assert proposed(mine, motions).blocks["joints"][2]["centre_count"] == pytest.approx(1500, abs=1)


def test_a_joint_far_outside_its_limits_is_named(mine: Robot, tmp_path: Path) -> None:
    motions, _ = guided(mine, real_arm(tmp_path))
    not_the_pose = np.deg2rad([0.0, 30.0, 0.0])  # the arm was at 0
    (text,) = proposed(mine, motions, not_the_pose).oddities
    assert text.startswith("joint joint_2 was at 30 to 77 deg by this match, outside its limits of -60 to 60 deg")
    assert proposed(mine, motions, not_the_pose / 2.0).oddities == ()  # below the margin
