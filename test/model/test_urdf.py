"""The exported URDF contains the identified model: pinocchio computes the same torques from it."""

import numpy as np
import pinocchio
import yaml
from arms import arm, nominal_standard

from dynid.export.urdf import identified_urdf, rotor_inertias
from dynid.model.chain import SerialChain, pinocchio_chain_model
from dynid.model.parameters import StandardParameters
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
NOMINAL = nominal_standard("crane_x7")


def changed() -> StandardParameters:
    """Return standard parameters that differ from those of the shipped URDF."""
    values = np.array(NOMINAL.values)
    values[: 10 * 7] *= 1.3
    return StandardParameters(NOMINAL.names, values, 7)


def test_pinocchio_computes_the_models_torques_from_the_urdf() -> None:
    standard = changed()
    chain = SerialChain(pinocchio_chain_model(identified_urdf(ROBOT, MODEL.mdh, standard), ROBOT.joint_names[:7]))
    chain.model.gravity.linear = np.array(MODEL.gravity)
    data = chain.model.createData()
    q, dq, ddq = np.random.default_rng(9).uniform(-2, 2, (3, 20, 8))
    tau = MODEL.inverse_dynamics(q, dq, ddq, MODEL.base_parameters(standard))[:, :7]
    for k in range(20):
        rigid = pinocchio.rnea(chain.model, data, q[k, :7], dq[k, :7], ddq[k, :7])
        motors = standard.axis("IA")[:7] * ddq[k, :7] + np.array(chain.model.damping)[:7] * dq[k, :7]
        np.testing.assert_allclose(rigid + motors, tau[k], atol=1e-7)


def test_rotor_inertias_missing_from_the_urdf_are_in_a_second_file() -> None:
    text = identified_urdf(ROBOT, MODEL.mdh, NOMINAL)
    assert "Rotor inertias are NOT in this file" in text
    side = yaml.safe_load(rotor_inertias(ROBOT, NOMINAL))["rotor_inertia_kg_m2"]
    assert list(side) == list(ROBOT.joint_names)
    np.testing.assert_allclose(list(side.values()), NOMINAL.axis("IA"))
