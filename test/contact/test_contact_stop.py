"""Stops at contact: detection, late messages, and messages for another model than the executor's."""

from typing import Any

import numpy as np
import pytest
from test.shared.felt import ARM, ROBOT, control_model, model_file, moved

from dynid.contact.contact_report import ContactReport, SharedModel, digest
from dynid.contact.contact_sense import ContactSense
from dynid.contact.payload import with_payload
from dynid.contact.shared_sense import SharedSense
from dynid.contact.stop import CONTACT_END_NS, MOST_AGE_NS, ContactStop
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.sway import SwayingController
from dynid.errors import DataError, SafetyError
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.recording.settings import parse_settings
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.held import CUBE_M, holding

NOW = 10**12
MODEL = "0123456789abcdef"


class Motion:
    """Stand-in for the motion to be stopped; after a cancel it reports that it is braking."""

    def __init__(self) -> None:
        self.moving, self.phase, self.stopped_itself, self.cancelled = True, "trajectory", "", 0
        self.controller = SwayingController(FeedforwardPdLaw(load_controller(ROBOT)), 0.002, ROBOT)

    def cancel(self, _: int) -> None:
        self.phase, self.cancelled = "cancelled", self.cancelled + 1


def report(stamp_ns: int = NOW, *, contact: bool = False, model: str = MODEL) -> ContactReport:
    return ContactReport(
        stamp_ns=stamp_ns,
        contact=contact,
        joint="crane_x7_joint2",
        torque_nm=3.1,
        threshold_nm=1.2,
        force_n=12.0,
        model=model,
    )


def stop(heard: ContactReport | None = None) -> tuple[ContactStop, Any]:
    """One that is asked for, with the executor's model known, and an estimate."""
    motion = Motion()
    found = ContactStop(motion)  # type: ignore[arg-type]
    found.enabled = True
    found.expect(MODEL)
    if heard is not None:
        found.receive(heard)
    return found, motion


def test_motion_continues_without_contact() -> None:
    found, motion = stop(report())
    assert found.watch(NOW) == "" and not motion.cancelled and not motion.controller.paused
    found.refuse(NOW)


def test_motion_in_contact_is_stopped_again() -> None:
    found, motion = stop(report(contact=True))
    for count in (1, 2, 3):
        motion.moving, motion.phase = True, "trajectory"
        assert "crane_x7_joint2, 3.1 N m" in found.watch(NOW) and motion.cancelled == count
        assert found.watch(NOW) == "" and motion.cancelled == count  # it brakes already
    assert "crane_x7_joint2" in motion.stopped_itself and motion.controller.paused


def test_no_contact_of_another_model_does_not_end_a_contact() -> None:
    found, _ = stop(report(contact=True))
    found.receive(report(NOW + 1_000_000, model="another"))
    assert "contact" in found.reason(NOW + 1_000_000)
    found.receive(report(NOW + 2_000_000))
    assert found.reason(NOW + 2_000_000) == ""


def test_motion_is_refused_during_and_shortly_after_contact() -> None:
    found, _ = stop(report(contact=True))
    with pytest.raises(SafetyError, match=r"crane_x7_joint2, 3\.1 N m from outside .* free the arm, or give"):
        found.refuse(NOW)
    found.receive(report(NOW + CONTACT_END_NS // 2))
    assert found.watch(NOW + CONTACT_END_NS // 2) == ""
    with pytest.raises(SafetyError, match="ended a moment ago"):
        found.refuse(NOW + CONTACT_END_NS // 2)
    found.receive(report(NOW + CONTACT_END_NS))
    found.refuse(NOW + CONTACT_END_NS)


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (None, "no node detects it: start external_torque"),
        (report(NOW - MOST_AGE_NS - 1), "0.20 s away from the newest state"),
        (report(NOW + MOST_AGE_NS + 1), "away from the newest state"),
        (report(model="another"), "the executor's model and payload yet"),
    ],
)
def test_estimates_that_do_not_count_stop_the_arm_and_refuse_motions(heard: ContactReport | None, words: str) -> None:
    found, motion = stop(heard)
    with pytest.raises(SafetyError, match=words):
        found.refuse(NOW)
    assert words in found.watch(NOW) and motion.cancelled == 1


def test_contact_without_the_stop_policy_stops_nothing() -> None:
    found, motion = stop(report(contact=True))
    found.enabled = False
    found.refuse(NOW)
    assert found.watch(NOW) == "" and not motion.cancelled


def test_older_model_is_tolerated_until_replaced() -> None:
    found, motion = stop(report())
    found.expect("newer")
    found.receive(report(NOW + MOST_AGE_NS))
    assert found.watch(NOW + MOST_AGE_NS) == ""
    assert "payload" in found.watch(NOW + MOST_AGE_NS + 1) and motion.cancelled == 1


def test_a_shared_model_arrives_as_it_was_sent() -> None:
    body, model = np.arange(10.0), control_model()
    text = SharedModel.of(ARM, model, body).model_dump_json()
    back = parse_settings("control_model", text, SharedModel)
    found = back.control_model(ROBOT.name, ARM)
    assert found is not None and (found.phi.values == model.phi.values).all() and back.payload == tuple(body)
    assert (found.friction.values == model.friction.values).all() and found.phi.names == model.phi.names
    assert digest(text) == digest(back.model_dump_json())
    none = SharedModel.of(ARM, None, body)
    assert none.control_model(ROBOT.name, ARM) is None
    with pytest.raises(SafetyError, match="structure other"):
        back.model_copy(update={"structure_hash": "other"}).control_model(ROBOT.name, ARM)
    with pytest.raises(DataError, match="payload"):
        parse_settings("control_model", text.replace("9.0]", "9.0, 1.0]"), SharedModel)


def held(mass_kg: float) -> FloatArray:
    """Parameters (10,) of the cube that `holding` puts into the hand."""
    cube = LinkInertia(mass_kg, np.array(ROBOT.file.tool_m), mass_kg * CUBE_M**2 / 6.0 * np.eye(3))
    return np.asarray(from_link_frame(cube, ARM.mdh.in_link[-1]))


@pytest.mark.slow
def test_contact_detection_has_no_gap_while_a_payload_takes_over() -> None:
    model, q = control_model(), ROBOT.rest_posture
    loaded = with_payload(ARM, model, held(0.6))
    given = model_file().torque_deviations
    sense = SharedSense(ContactSense(ROBOT, ARM, model, given))
    free, heavy = (ARM.inverse_dynamics(q, 0 * q, 0 * q, one.phi)[0] for one in (model, loaded))
    assert np.abs(heavy - free).max() > 1.5
    judged, felt, stamp_ns = [], [], 0

    def pass_on(tau: np.ndarray, cycles: int) -> None:
        nonlocal stamp_ns
        for _ in range(cycles):
            stamp_ns += 1_000_000
            felt.append(sense.update(stamp_ns, q, tau))
            judged.append(stamp_ns - sense.judged_ns)

    pass_on(free, 400)
    assert not any(felt) and judged[-1] == 0
    pass_on(heavy, 200)  # a load that nobody was told of is felt
    assert felt[-1]
    sense.follow(ContactSense(ROBOT, ARM, loaded, given))
    judged.clear()
    pass_on(heavy, 50)
    assert felt[-1]  # the new one does not know yet
    pass_on(heavy, 200)
    assert not felt[-1] and max(judged) == 0


@pytest.mark.slow
def test_payload_known_to_the_executor_is_no_contact() -> None:
    """A payload of 0.3 kg known only to the executor would be taken for contact most of the time."""
    given, felt = model_file().torque_deviations, list[list[bool]]()
    models = control_model(), with_payload(ARM, control_model(), held(0.3))
    senses = [ContactSense(ROBOT, ARM, model, given, torque_delay_s=0.0009) for model in models]

    def feel(arm: SteppedArm, tau: FloatArray) -> None:
        felt.append([sense.update(arm.stamp_ns, np.array(arm.position), tau) for sense in senses])

    moved(lambda *_: None, feel, standard=holding(ROBOT, 0.3))
    alone, shared = np.array(felt)[300:].mean(axis=0)
    assert alone > 0.3 and shared == 0.0
