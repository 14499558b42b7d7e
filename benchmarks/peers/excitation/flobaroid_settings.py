"""Settings of FloBaRoID's trajectory generator, from its sample configurations of arms, with the limits of a task."""

import itertools
import math
import xml.etree.ElementTree as ElementTree
from typing import Any

from benchmarks.peers.excitation.exchange import Given

RATE_HZ, CHECK_STEP = 20.0, 2  # rate of its optimisation and of its file; samples between checks for contact
PULSE_RAD_S = 0.5  # about which its sample of a KUKA LWR 4 starts; the period is a whole part of the duration
ROUNDED = 1.0 - 1e-9  # it rounds the number of samples of a period down
FEWEST, MOST = 3, 6  # harmonics of the first and of the last joint, as in that sample
ITERATIONS = 150
TOLERANCE = (
    0.01  # excess of speeds [rad/s] that it tolerates, as in its samples; the limits it gets are lower by as much
)
CAPSULES = 0.8  # factor of the capsules' radii, as in its samples of the WALK-MAN


def settings(given: Given) -> dict[str, Any]:
    """Return the configuration of trajectory.py."""
    return SEARCH | motion(given) | collision(given) | IDENTIFICATION | OUTPUT


def periods(given: Given) -> int:
    """Return how often the motion is repeated within the duration of the task."""
    return max(1, round(given.task.duration_s * PULSE_RAD_S / (2.0 * math.pi)))


def motion(given: Given) -> dict[str, Any]:
    """Return the settings of the motion: its period, and more harmonics for joints further out."""
    joints = given.task.joints
    pulse = periods(given) * 2.0 * math.pi / given.task.duration_s * ROUNDED
    step = (MOST - FEWEST) / max(1, len(joints) - 1)
    return {
        "trajectoryPulseInit": pulse,
        "trajectoryPulseMin": pulse,
        "trajectoryPulseMax": pulse,
        "trajectoryNf": {name: round(FEWEST + step * place) for place, name in enumerate(joints)},
        "excitationFrequency": RATE_HZ,
    }


def collision(given: Given) -> dict[str, Any]:
    """Return the settings of its collision check: capsules, and the pairs of links that the task keeps apart.

    Convex hulls and meshes gave no distance of links that overlap, and without one its optimiser did not part them.
    """
    links = [str(one.get("name")) for one in ElementTree.parse(given.urdf).getroot().findall("link")]
    apart = {frozenset(pair) for pair in given.task.apart}
    ignored = [list(pair) for pair in itertools.combinations(links, 2) if frozenset(pair) not in apart]
    return {
        "collisionMode": "capsule",
        "scaleCapsuleRadius": CAPSULES,
        "collisionCheckStep": CHECK_STEP,
        "worldCollisionMargin": 0.0,
        "ignoreLinksForCollision": [],
        "ignoreLinkPairsForCollision": ignored,
        "scaleCollisionHull": 1.0,
    }


SEARCH: dict[str, Any] = {
    "optimizeTrajectory": 1,
    "useGlobalOptimization": 0,
    "optunaSampler": "TPE",
    "useLocalOptimization": 1,
    "localOptIterations": ITERATIONS,
    "useAnalyticalGradients": 1,
    "analyticalGradientEpsilon": 1.0e-7,
    "analyticalGradientJobs": 1,
    "minTolConstr": TOLERANCE,
    "trajectorySeedSolutions": [],
    "trajectoryPriorMeasurements": [],
    "trajectoryBounded": 1,
    "trajectoryCoeffInit": 0.01,
    "trajectoryCoeffMin": -0.5,
    "trajectoryCoeffMax": 0.5,
    "trajectoryTargetVelocity": 0.5,
    "trajectoryCenterFreedom": 25.0,
    "trajectoryOscillationCenters": {},
    "ovrPosLimit": {},
    "minVelocityConstraint": 0,
    "minVelocityPercentage": 0.1,
    "minTorqueUtilization": 0.0,
    "transitionDuration": 0.0,
    "simulateNumStops": 0,
    "staticPostures": [],
    "useStaticTrajectories": 0,
    "numStaticPostures": 2,
    "staticPostureTime": 0.02,
    "initialPostures": [],
    "exciteMethod": None,
    "useDeg": 0,
}
IDENTIFICATION: dict[str, Any] = {
    "floatingBase": 0,
    "useStructuralRegressor": 1,
    "randomSamples": 5000,
    "minTol": 0.0001,
    "identifyFrictionSimultaneously": 1,
    "identifySymmetricVelFriction": 1,
    "identifyGravityParamsOnly": 0,
    "simulateTorques": 0,
    "startOffset": 0,
    "skipSamples": 0,
    "selectBlocksFromMeasurements": 0,
    "blockSize": 250,
    "selectBestPerenctage": 50,
    "removeNearZero": 0,
    "filterMedianSize": 11,
    "filterLowPass1": [8.0, 5],
    "filterLowPass2": [6.0, 5],
    "filterLowPass3": [3.0, 4],
    "filterRegressor": 0,
    "filterRegCutoff": 5,
    "useAPriori": 0,
    "useEssentialParams": 0,
    "useDependents": 0,
    "useWLS": 0,
    "constrainToConsistent": 1,
    "checkAPrioriFeasibility": 0,
    "noChange": 0,
    "restrictCOMtoHull": 0,
    "hullScaling": 1.0,
    "meshBaseDir": "meshes",
    "cubeSize": 0.1,
    "dontChangeParams": [],
    "dontConstrain": [],
}
OUTPUT: dict[str, Any] = {
    "showOptimizationGraph": 0,
    "showOptimizationTrajs": 0,
    "showModelVisualization": 0,
    "transparentLinks": [],
    "createPlots": 0,
    "showRandomRegressor": 0,
    "showErrorHistogram": 0,
    "showMemUsage": 0,
    "showTiming": 0,
    "showEssentialSteps": 0,
    "showBaseParams": 0,
    "showBaseEqns": 0,
    "outputLatex": 0,
    "estimateWith": "std",
    "verbose": 0,
}
