"""Run of a campaign: identification from one bag at one sampling interval (Algorithm 1 of arXiv:2605.15949).

A run begins with ordinary least squares (OLS). An audit searches for the smallest eigenvalue of the inertia matrix M(q)
over the audit domain, a box of poses. If M(q) is not positive definite, or if the refinement of the OLS parameters
fails, these are projected to the nearest parameters for which no eigenvalue of M(q) is below a margin. Several margins
are tried in ascending order, until the refinement succeeds. The closed-loop refinement keeps M(q) positive definite
over the audit domain in every step. An audit on new poses follows. If it finds a pose at which M(q) is not positive
definite, the refined parameters are projected again (rescue, eq. 12 of that paper). Every run ends with feasible
parameters, or is refused with a reason.
"""

import time
from typing import Literal

import numpy as np

from dynid.errors import DynidError, InfeasibleError
from dynid.identification.checks import DATA, FRICTION, OneRegression, judge
from dynid.identification.closed_loop.clie import ClieOptions, ClieResult, refine
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.projection import ProjectionResult, project
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.table import estimator
from dynid.identification.feasibility.audit import Auditor, AuditResult
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, physical_lower_bounds
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import FloatArray, Robot, Strict

Route = Literal["O-C", "O-S-C"]
Outcome = Literal["feasible", "rescued", "refused"]
ESTIMATOR = "ols"  # estimator of campaigns, which follow the paper, independent of identification.yaml
FRESH_SEED, RESCUE_SEED = 1, 2  # added to the audit's own seed


class StageRecord(Strict):
    """Stored parameters of one stage of a run, with smallest eigenvalue of the inertia matrix M and torque errors.

    A run is the identification from one bag at one sampling interval. Its stages are least squares, projection to a
    positive-definite M, closed-loop refinement, and "final", the result of the run.

    Attributes:
        phi: base parameters, (p,).
        standard_deviations: standard deviations of phi, (p,); empty for a projection, for which they are not computed.
        lambda_min: smallest eigenvalue of M that was found over many poses [kg m^2].
        rmse_nm: rms torque error of inverse dynamics on the run's own samples [N m].
        relative: relative torque error of inverse dynamics on the run's own samples.
        seconds: wall time of the stage [s].
        friction: friction parameters that fit the samples best for this phi, (m,); empty if friction is ignored.
    """

    phi: tuple[float, ...]
    standard_deviations: tuple[float, ...] = ()
    lambda_min: float
    rmse_nm: float
    relative: float
    seconds: float
    friction: tuple[float, ...] = ()


class RunRecord(Strict):
    """Stored record of one run of a campaign: the identification from one bag at one sampling interval.

    Attributes:
        key: digest of everything that the result of the run depends on.
        bag: name of the bag.
        bag_sha256: hash of the bag.
        trajectory: name of the recorded trajectory.
        mount: name of the arm's mount (orientation of its base).
        torque_constants_nm_per_a: torque constants of the recorded currents, (n,) [N m/A].
        interval_s: sampling interval [s].
        simulated: whether the recorded driver reported that its arm is simulated.
        notes: remarks about the recording.
        outcome: "feasible", "rescued" (projected again after the refinement) or "refused".
        refusal: reason of a refusal; "" without one.
        findings: sentences about failed checks of the data.
        samples: number of samples.
        kappa: condition number of the regressor; None if the run was refused before it was computed.
        weakest: names of the parameters that the motion determines with the lowest accuracy.
        ols: unconstrained least-squares parameters (OLS); None if the run was refused before they were computed.
        route: "O-C" if the OLS parameters were refined directly, "O-S-C" if they were projected first; None if no
            refinement succeeded.
        eps_kg_m2: smallest eigenvalue of the inertia matrix M that the projection before the refinement permitted [kg
            m^2]; None without a projection, or if no refinement succeeded.
        sdp: projected parameters, from which the refinement started; None without a projection.
        clie: parameters from the closed-loop refinement (CLIE); None if the run was refused before they were computed.
        clie_reason: reason for the end of the refinement, such as "converged"; "" without a refinement.
        clie_steps: number of steps of the refinement.
        closed_loop_rmse_nm: root mean square torque error of the simulated closed loop before and after the refinement,
            weighted as in the refinement [N m]; None without a refinement.
        final: the feasible parameters, refined or rescued; None if the run was refused.
        seconds: wall time of the run [s].
    """

    key: str
    bag: str
    bag_sha256: str
    trajectory: str
    mount: str
    torque_constants_nm_per_a: tuple[float, ...]
    interval_s: float
    simulated: bool = False
    notes: tuple[str, ...] = ()
    outcome: Outcome = "refused"
    refusal: str = ""
    findings: tuple[str, ...] = ()
    samples: int = 0
    kappa: float | None = None
    weakest: tuple[str, ...] = ()
    ols: StageRecord | None = None
    route: Route | None = None
    eps_kg_m2: float | None = None
    sdp: StageRecord | None = None
    clie: StageRecord | None = None
    clie_reason: str = ""
    clie_steps: int = 0
    closed_loop_rmse_nm: tuple[float, float] | None = None
    final: StageRecord | None = None
    seconds: float = 0.0

    @property
    def label(self) -> str:
        """Name of the run for messages: its bag and its sampling interval, such as 'AG02 at 40 ms'."""
        return f"{self.bag} at {self.interval_s * 1e3:g} ms"

    @property
    def accepted(self) -> bool:
        """Whether the run ended with a feasible set of parameters."""
        return self.outcome != "refused"


class Runner:
    """Executor of a campaign's runs for one robot at one mount.

    Args:
        robot: the robot.
        settings: settings of the identification.
        mount: name of the robot's mount (orientation of its base).
        gears: friction that was fitted to one bag and is used in all runs, see `campaign_gears`; None means that each
            run fits its own friction.
    """

    def __init__(
        self, robot: Robot, settings: IdentificationSettings, mount: str, gears: KnownGears | None = None
    ) -> None:
        self.robot, self.settings, self.gears = robot, settings, gears
        self.model = ArmModel.of(robot, mount=mount)
        self.auditor = Auditor(self.model, robot.audit_lower, robot.audit_upper)
        self.lower = physical_lower_bounds(self.model.names)

    def audit(self, base: BaseParameters, more_seed: int = 0) -> AuditResult:
        """Search for the smallest eigenvalue of the inertia matrix M(q) over the audit domain, a box of poses.

        Args:
            base: base parameters.
            more_seed: number that is added to the settings' random seed, so that other poses are examined.
        """
        effort = self.settings.audit
        return self.auditor.audit(base, poses=effort.poses, searches=effort.searches, seed=effort.seed + more_seed)

    def project(self, base: BaseParameters, eps: float, more_seed: int = 0) -> ProjectionResult:
        """Return the nearest base parameters for which M(q) has no eigenvalue below eps in a box of poses.

        Args:
            base: base parameters to project.
            eps: smallest permitted eigenvalue of the inertia matrix M [kg m^2].
            more_seed: number that is added to the settings' random seed, so that other poses are examined.

        Raises:
            InfeasibleError: no base parameters satisfy this condition.
        """
        effort, rounds = self.settings.audit, self.settings.projection.maximum_rounds
        return project(
            self.auditor,
            base,
            eps,
            lower=self.lower,
            poses=effort.poses,
            searches=effort.searches,
            seed=effort.seed + more_seed,
            maximum_rounds=rounds,
        )

    def run(self, recording: DriverRecording, interval_s: float, key: str) -> RunRecord:
        """Execute one run (identification from one bag at one sampling interval) and return its record.

        An error in the data or the optimisation is not raised; the record states it as the reason why the run is
        refused.

        Args:
            recording: recording of the bag.
            interval_s: sampling interval [s].
            key: key under which the record is stored.
        """
        experiment = recording.experiment
        blank = RunRecord(
            key=key,
            bag=recording.source.name,
            bag_sha256=recording.sha256,
            trajectory=experiment.trajectory if experiment else recording.source.name,
            mount=recording.hardware.mount,
            torque_constants_nm_per_a=recording.hardware.torque_constants_nm_per_a,
            interval_s=interval_s,
            simulated=recording.hardware.simulated,
            notes=recording.notes,
        )
        begin = time.perf_counter()
        progress = _Progress(self, recording, interval_s)
        try:
            progress.complete()
        except (DynidError, np.linalg.LinAlgError) as error:
            progress.found |= {"outcome": "refused", "refusal": f"{progress.doing}: {error}", "final": None}
        return blank.model_copy(update={**progress.found, "seconds": time.perf_counter() - begin})


def clie_options(settings: IdentificationSettings) -> ClieOptions:
    """Return the options of the closed-loop refinement in a campaign.

    With these options, the eigenvalues of the inertia matrix M(q) stay above the setting
    `Projection.rescue_margin_kg_m2`.
    """
    return ClieOptions(eps=settings.projection.rescue_margin_kg_m2)


class _Progress:
    """State of a run in progress: name of the current step, and the results so far as fields of the run's record."""

    def __init__(self, runner: Runner, recording: DriverRecording, interval_s: float) -> None:
        self.runner, self.recording, self.interval_s = runner, recording, interval_s
        self.doing = "preprocessing"
        self.found: dict[str, object] = {}
        self.friction: KnownFriction | None = None
        self.weights: FloatArray | None = None  # weights of the closed loop's samples

    def complete(self) -> None:
        """Execute all steps of the run (least squares, refinement, acceptance) and collect their results."""
        runner, settings = self.runner, self.runner.settings
        samples = preprocess_recording(self.recording, runner.robot, settings, interval_s=self.interval_s)
        verdict = judge(DATA, samples.quality, settings)
        self.found |= {"samples": len(samples), "findings": tuple(check.sentence() for check in verdict.failed)}
        self.doing = "least squares"
        begin = time.perf_counter()
        estimate = estimator(ESTIMATOR).estimate(runner.model, samples, settings.coulomb_friction, runner.gears)
        if estimate.friction is not None:
            self.friction = KnownFriction(runner.model, estimate.base, estimate.friction)
        self.regression = estimate.regression
        verdict += judge(FRICTION, [OneRegression(self.regression, samples.joint_names)], settings)
        self.found["findings"] = tuple(check.sentence() for check in verdict.failed)
        self._note_ols(estimate, time.perf_counter() - begin)
        refined = self._refine(estimate.base)
        self._accept(refined.base)

    def _note_ols(self, estimate: Estimate, seconds: float) -> None:
        self.found |= {"kappa": estimate.condition_number, "weakest": estimate.weakest}
        self.found["ols"] = self._stage(estimate.base, self.runner.audit(estimate.base).lambda_min, seconds)

    def _stage(self, base: BaseParameters, lambda_min: float, seconds: float) -> StageRecord:
        errors, friction = self.regression.errors(base.values), self.regression.friction_given(base.values)
        deviations = base.standard_deviations
        return StageRecord(
            phi=tuple(base.values.tolist()),
            standard_deviations=() if deviations is None else tuple(deviations.tolist()),
            lambda_min=lambda_min,
            rmse_nm=errors.rmse,
            relative=errors.relative,
            seconds=seconds,
            friction=() if friction is None else tuple(friction.tolist()),
        )

    def _refine(self, ols: BaseParameters) -> ClieResult:
        """Return the closed-loop refinement of the least-squares parameters.

        If the inertia matrix M is positive definite for these parameters, the refinement starts at them. If not, or if
        this refinement fails, it starts at projected parameters. The projection keeps all eigenvalues of M at or above
        a margin; the margins of the settings are tried in ascending order until a refinement succeeds.

        Raises:
            InfeasibleError: no refinement succeeds.
        """
        self.doing = "preparing the closed loop"
        settings, runner = self.runner.settings, self.runner
        controller = recorded_controller(self.recording)
        data = closed_loop_data(self.recording, runner.robot, settings, self.interval_s, self.friction)
        stage = self.found["ols"]
        assert isinstance(stage, StageRecord)
        starts: list[float | None] = [None] if stage.lambda_min > 0.0 else []
        refusals = []
        for eps in (*starts, *sorted(settings.projection.ladder_kg_m2)):
            self.weights = data.weights
            try:
                start = ols if eps is None else self._project(ols, eps)
                self.doing = "closed-loop refinement"
                result = refine(runner.model, controller, data, start, clie_options(settings), runner.auditor)
            except InfeasibleError as error:
                refusals.append(f"{'OLS' if eps is None else f'eps {eps:g}'}: {error}")
                continue
            self._note_clie(result, "O-C" if eps is None else "O-S-C", eps)
            return result
        raise InfeasibleError(f"no margin of the ladder gives a refined model; {'; '.join(refusals)}")

    def _project(self, ols: BaseParameters, eps: float) -> BaseParameters:
        self.doing = "projection"
        begin = time.perf_counter()
        result = self.runner.project(ols, eps)
        seconds = time.perf_counter() - begin
        base = BaseParameters(ols.names, result.base.values)
        self.found["sdp"] = self._stage(base, result.audit.lambda_min, seconds)
        return base

    def _note_clie(self, result: ClieResult, route: Route, eps: float | None) -> None:
        count = result.simulation.tau.size if self.weights is None else float(np.sum(self.weights**2))
        self.found |= {
            "route": route,
            "eps_kg_m2": eps,
            "clie_reason": result.reason,
            "clie_steps": len(result.iterations),
            "closed_loop_rmse_nm": (float(np.sqrt(result.start_cost / count)), float(np.sqrt(result.cost / count))),
            "clie": self._stage(result.base, self.runner.audit(result.base, FRESH_SEED).lambda_min, result.seconds),
        }
        if eps is None:
            self.found["sdp"] = None

    def _accept(self, base: BaseParameters) -> None:
        """Store the refined parameters as final if they pass an audit at poses that the refinement did not check.

        The inertia matrix passes if its smallest eigenvalue reaches the limit of the settings. If it does not, the
        parameters are projected again (rescue), and audited at further poses.

        Raises:
            InfeasibleError: the projected parameters do not pass the audit, or the projection fails.
        """
        clie, limit = self.found["clie"], self.runner.settings.acceptance.lambda_min_kg_m2
        assert isinstance(clie, StageRecord)
        if clie.lambda_min >= limit:
            self.found |= {"outcome": "feasible", "final": clie}
            return
        self.doing = "rescue"
        begin = time.perf_counter()
        rescued = rescue(self.runner, base)
        lambda_min = self.runner.audit(rescued, RESCUE_SEED).lambda_min
        final = self._stage(rescued, lambda_min, time.perf_counter() - begin)
        if lambda_min < limit:
            raise InfeasibleError(
                f"at new poses the rescued model has a smallest eigenvalue of {lambda_min:.3g} kg m^2, expected at "
                f"least {limit:.3g}"
            )
        self.found |= {"outcome": "rescued", "final": final}


def rescue(runner: Runner, base: BaseParameters) -> BaseParameters:
    """Project refined parameters to the nearest model with positive-definite inertia (arXiv:2605.15949, eq. 12).

    Args:
        runner: executor of runs, which contains the box of poses and the settings.
        base: refined parameters.

    Raises:
        InfeasibleError: there is no model with positive-definite inertia.
    """
    return runner.project(base, runner.settings.projection.rescue_margin_kg_m2, FRESH_SEED).base


def friction_of(stage: StageRecord) -> FloatArray | None:
    """Return the stored friction parameters (m,) after one stage of a run; None if friction was ignored.

    Args:
        stage: record of the stage, such as least squares or closed-loop refinement.
    """
    return np.array(stage.friction) if stage.friction else None


def phi_of(stage: StageRecord, names: tuple[str, ...]) -> BaseParameters:
    """Return the stored base parameters after one stage of a run, with a diagonal covariance matrix.

    Args:
        stage: record of the stage, such as least squares or closed-loop refinement.
        names: names of the base parameters, (p,).
    """
    covariance: FloatArray | None = None
    if stage.standard_deviations:
        covariance = np.diag(np.square(stage.standard_deviations))
    return BaseParameters(names, np.array(stage.phi), covariance)
