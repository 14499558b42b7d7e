"""A small campaign from bags to result: routes, refusals, resumption, unusable bags, acceptance, files."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, InfeasibleError, InputNotFoundError, OutputExistsError
from dynid.export.mjcf import default_stops
from dynid.identification.campaign import run as campaign_run
from dynid.identification.campaign.campaign import Campaign, campaign, run_all
from dynid.identification.campaign.files import identification_of, summary
from dynid.identification.campaign.held_out_set import HeldOutSet
from dynid.identification.campaign.representative import PathRescue
from dynid.identification.campaign.run import Runner, RunRecord, phi_of, rescue
from dynid.identification.campaign.store import RunStore, bag_digest, fingerprint
from dynid.identification.campaign.tables import campaign_tables
from dynid.identification.feasibility.audit import Auditor
from dynid.identification.pipeline import identify
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters, parameter_unit
from dynid.model.standard import from_file
from dynid.recording.driver_recording import DriverRecording, load_driver_recording
from dynid.reporting.result_writer import write_result
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.nuisances import DELAY, NUISANCES
from dynid.trajectory.families import load_excitation

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
MODEL = ArmModel.of(ROBOT, mount="hanging")
TOO_LONG_S = 0.5  # leaves fewer samples than the limit
DEFAULT = load_identification(ROBOT)
# Its friction is known to be viscous and Coulomb: choosing the structure anew would take most of every run's time.
PLAIN = DEFAULT.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
SETTINGS = DEFAULT.model_copy(update={"campaign_intervals_s": (0.02, 0.08, TOO_LONG_S), "coulomb_friction": PLAIN})
BAGS, BAD = ("AP01", "PA02"), ("broken", "missing")


def with_acceptance(**limits: float) -> IdentificationSettings:
    return SETTINGS.model_copy(update={"acceptance": SETTINGS.acceptance.model_copy(update=limits)})


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bags")
    excitation, controller = load_excitation(ROBOT), load_controller(ROBOT)
    stops = default_stops(ROBOT, excitation.limits("paper"))
    for name in (*BAGS, "V01"):
        trajectory = excitation.trajectory(name, "paper")
        run = simulate(
            ROBOT,
            trajectory,
            FeedforwardPd(controller),
            mount="hanging",
            seed=5,
            stops=stops,
            to_rest=False,
            friction="viscous",
            switched_off=("backlash",),
        )
        write_bag(run, ROBOT, controller, folder / name, profile="paper")
    (folder / "broken").mkdir()
    (folder / "broken" / "broken_0.mcap").write_bytes(b"no recording")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "runs"


def start(bags: Path, store: Path, names: tuple[str, ...] = BAGS, **options: Any) -> Campaign:
    chosen = {"settings": SETTINGS, "processes": 1, "validation_bags": [bags / "V01"]} | options
    return campaign(ROBOT, [bags / name for name in names], store, **chosen)


@pytest.fixture(scope="module")
def found(bags: Path, store: Path) -> Campaign:
    return start(bags, store, (*BAGS, *BAD))  # two processes would each compile the kernels that are not there yet


def accepted(found: Campaign) -> list[RunRecord]:
    return [run for run in found.runs if run.accepted]


def test_a_bad_bag_is_reported_and_stops_nothing(found: Campaign) -> None:
    assert set(found.failures) == set(BAD)
    assert "missing" in found.failures["missing"] and "broken" in found.failures["broken"]
    assert [(run.bag, run.interval_s) for run in found.runs] == [
        (bag, interval) for bag in BAGS for interval in SETTINGS.campaign_intervals_s
    ]


def test_every_run_ends_feasible_or_with_a_named_refusal(found: Campaign) -> None:
    assert len(accepted(found)) == 4
    auditor = Auditor(MODEL, ROBOT.audit_lower, ROBOT.audit_upper)
    for run in found.runs:
        if run.interval_s == TOO_LONG_S:
            assert run.outcome == "refused" and run.final is None
            assert run.refusal.startswith("preprocessing:") and "samples" in run.refusal
        else:
            assert run.final is not None and run.refusal == ""
            audit = auditor.audit(phi_of(run.final, MODEL.names), limit=1e-4, poses=200_000, seed=77)
            assert audit.passed, run.label
    assert not found.processing.accepted  # a third of the runs was refused
    assert found.processing.failed[0].name == "share of feasible runs"


def test_the_route_follows_the_audit_of_ols(bags: Path, tmp_path: Path) -> None:
    """Coulomb friction that is ignored, as in the paper, spoils least squares so that a projection is needed."""
    ignored = SETTINGS.coulomb_friction.model_copy(update={"treatment": "ignored"})
    settings = SETTINGS.model_copy(update={"coulomb_friction": ignored, "campaign_intervals_s": (0.02, 0.08)})
    runs, failures, _ = run_all(ROBOT, [bags / name for name in BAGS], settings, tmp_path / "runs", processes=2)
    assert not failures
    routes = set()
    for run in runs:
        assert run.ols is not None and run.clie is not None and run.ols.friction == ()
        routes.add(run.route)
        if run.ols.lambda_min > 0.0:
            assert (run.route, run.eps_kg_m2, run.sdp) == ("O-C", None, None)
        else:
            assert run.route == "O-S-C" and run.sdp is not None and run.eps_kg_m2 is not None
            assert run.sdp.lambda_min >= run.eps_kg_m2 > 0.0
        before, after = run.closed_loop_rmse_nm or (0.0, 1.0)
        assert after <= before
        assert run.kappa is not None and 10 < run.kappa < 1000
    assert "O-S-C" in routes


def test_friction_is_found_and_runs_are_counted(found: Campaign) -> None:
    truth = np.array(ROBOT.file.simulation.nuisances.coulomb_friction_nm)
    for run in accepted(found):
        assert run.final is not None and run.route == "O-C"
        np.testing.assert_allclose(run.final.friction[:8], truth, rtol=0.25)
        assert run.final.relative < 0.17  # of which most is sticking
    assert sum(row["total"] for row in found.routing().values()) == 6
    assert found.routing()[TOO_LONG_S] == {"O-C": 0, "O-S-C": 0, "unrouted": 2, "refused": 2, "total": 2}


def test_the_result_is_consistent_and_judged_on_held_out_bags(found: Campaign) -> None:
    study = found.study
    assert study.run == found.representative
    assert study.result.audit.passed and study.result.audit.poses_checked >= SETTINGS.acceptance.fresh_poses
    np.testing.assert_allclose(
        MODEL.base_parameters(study.result.consistent.standard).values, study.result.consistent.base.values
    )
    assert isinstance(study.path_rescue, PathRescue)
    assert study.path_rescue.rescued_audit.lambda_min >= 1e-4
    errors = {name: rows[0].errors.relative for name, rows in study.held_out.items()}
    assert errors["direct fit"] == min(errors.values())  # nothing predicts better than a fit to these very data
    (ratio,) = [check for check in found.verdict.checks if check.name.startswith("held-out torque error")]
    assert ratio.value == pytest.approx(errors["result"] / errors["direct fit"])
    assert found.verdict.accepted == all(check.passed for check in found.verdict.checks)


def test_a_stored_campaign_is_not_run_again(
    bags: Path, store: Path, found: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> RunRecord:
        raise AssertionError("this run is stored")

    monkeypatch.setattr(Runner, "run", refuse)
    again = start(bags, store)
    assert again.reused == 6 and again.runs == found.runs
    np.testing.assert_array_equal(again.study.result.consistent.base.values, found.study.result.consistent.base.values)
    # limits of the result alone are no reason to run again, and they do reject
    strict = start(bags, store, settings=with_acceptance(relative_torque_error=1e-3))
    assert strict.reused == 6 and not strict.verdict.accepted
    assert "relative torque error, V01" in [check.name for check in strict.verdict.failed]
    with pytest.raises(AssertionError, match="stored"):
        start(bags, store, settings=with_acceptance(lambda_min_kg_m2=2e-4))


def test_keys_follow_bag_settings_and_interval(bags: Path, tmp_path: Path) -> None:
    shared = RunStore(tmp_path, fingerprint(ROBOT, SETTINGS))
    filtered = SETTINGS.model_copy(update={"filter": SETTINGS.filter.model_copy(update={"order": 2})})
    other = RunStore(tmp_path, fingerprint(ROBOT, filtered))
    changed = tmp_path / "AP01"
    shutil.copytree(bags / "AP01", changed)
    assert bag_digest(changed) == bag_digest(bags / "AP01")
    (data,) = changed.glob("*.mcap")
    with data.open("ab") as stream:
        stream.write(b"x")
    digests = bag_digest(bags / "AP01"), bag_digest(changed)
    keys = {one.key(digest, interval) for one in (shared, other) for digest in digests for interval in (0.02, 0.08)}
    assert len(keys) == 8
    with pytest.raises(InputNotFoundError):
        bag_digest(tmp_path / "nothing")


def test_an_interrupted_campaign_goes_on(
    bags: Path, store: Path, found: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = iter(found.runs[:2])

    def interrupted(self: Runner, recording: object, interval_s: float, key: str) -> RunRecord:
        for record in records:
            return record.model_copy(update={"key": key})
        raise KeyboardInterrupt

    work = tmp_path / "runs"
    monkeypatch.setattr(Runner, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(bags, work, ("AP01",))
    assert len(list(work.iterdir())) == 2
    calls = []
    monkeypatch.setattr(Runner, "run", lambda *arguments: calls.append(arguments[2]) or found.runs[2])
    with pytest.raises(
        DataError, match="2 runs ended feasible, but at least 3 are needed: AP01 at 500 ms: preprocessing"
    ):
        start(bags, work, ("AP01",))
    assert calls == [TOO_LONG_S]


def test_a_damaged_stored_run_is_named(bags: Path, found: Campaign, store: Path, tmp_path: Path) -> None:
    copy = RunStore(tmp_path, fingerprint(ROBOT, SETTINGS))
    copy.put(found.runs[0])
    assert copy.get("AP01", found.runs[0].key) == found.runs[0]
    copy.put(found.runs[0].model_copy(update={"seconds": 0.0}))  # the first one stays
    assert copy.get("AP01", found.runs[0].key) == found.runs[0]
    copy.path("AP01", found.runs[0].key).write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="remove it"):
        copy.get("AP01", found.runs[0].key)


def test_a_refined_set_that_is_indefinite_is_rescued_or_refused(bags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = read_model_file(ROBOT.folder / "models" / "paper.yaml")
    indefinite = BaseParameters(MODEL.names, np.array([row.value for row in published.parameters]))
    runner, recording = Runner(ROBOT, SETTINGS, "hanging"), load_driver_recording(bags / "PA02", ROBOT)
    refine, calls = campaign_run.refine, []

    def spoilt(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise InfeasibleError("cannot be simulated")
        return replace(refine(*arguments), base=indefinite)

    monkeypatch.setattr(campaign_run, "refine", spoilt)
    run = runner.run(recording, 0.08, "key")
    assert run.outcome == "rescued" and run.accepted and run.route == "O-S-C"  # the first start could not be used
    assert run.clie is not None and run.final is not None
    assert run.clie.lambda_min < -1e-3 and run.final.lambda_min >= 1e-4
    change = np.abs(np.subtract(run.final.phi, run.clie.phi))
    assert 0.0 < change.max() < 2e-3

    def in_vain(*arguments: object) -> None:
        raise InfeasibleError("no model there")

    monkeypatch.setattr(campaign_run, "rescue", in_vain)
    refused = runner.run(recording, 0.08, "key")
    assert not refused.accepted and refused.refusal == "rescue: no model there" and refused.final is None
    assert rescue(runner, indefinite).names == MODEL.names


def recorded(folder: Path, name: str, off: tuple[str, ...] = (), seed: int = 0) -> DriverRecording:
    """A bag of the simulated arm in a new folder."""
    excitation, controller = load_excitation(ROBOT), load_controller(ROBOT)
    stops = default_stops(ROBOT, excitation.limits("paper"))
    made = simulate(
        ROBOT,
        excitation.trajectory(name, "paper"),
        FeedforwardPd(controller),
        mount="hanging",
        stops=stops,
        switched_off=off,
        seed=seed,
        to_rest=False,
        friction="viscous",
    )
    write_bag(made, ROBOT, controller, folder / name, profile="paper")
    return load_driver_recording(folder / name, ROBOT)


def scale_of(truth: FloatArray) -> FloatArray:
    """Every parameter's size, or the median of its unit group where that is larger."""
    units = np.array([parameter_unit(name) for name in MODEL.names])
    median = {unit: np.median(np.abs(truth[units == unit])) for unit in units}
    return np.maximum(np.abs(truth), [median[unit] for unit in units])


@pytest.mark.parametrize(("name", "late"), [pytest.param("PA02", (), marks=pytest.mark.study), ("AP01", (DELAY,))])
def test_an_ideal_plant_is_recovered(tmp_path: Path, name: str, late: tuple[str, ...]) -> None:
    """Without nuisances, by OLS, CLIE and the plain pipeline; the delay is read from the bag."""
    recording = recorded(tmp_path, name, tuple(one for one in NUISANCES if one not in late))
    truth = MODEL.base_parameters(from_file(plant_standard(ROBOT), MODEL.mdh, MODEL.regrouping.standard)).values
    scale = scale_of(truth)
    runner = Runner(ROBOT, DEFAULT, "hanging")
    intervals = load_identification(ROBOT).campaign_intervals_s
    for interval in intervals if late else intervals[::3]:
        run = runner.run(recording, interval, "key")
        assert run.ols is not None and run.clie is not None and run.accepted
        for stage in (run.ols, run.clie):
            assert np.max(np.abs(np.array(stage.phi) - truth) / scale) < 0.005
            assert np.max(np.array(stage.standard_deviations) / scale) < 0.005
    quick = DEFAULT.acceptance.model_copy(update={"fresh_poses": 10_000})
    found = identify(ROBOT, [tmp_path / name], settings=DEFAULT.model_copy(update={"acceptance": quick}))
    assert found.verdict.accepted, found.verdict.failed
    assert np.max(np.abs(found.base.values - truth) / scale) < 0.005


@pytest.mark.study
def test_standard_deviations_cover_effects_of_noise(tmp_path: Path) -> None:
    """Runs that differ in their noise alone scatter by less than their deviations say, and by a part of it at least.

    The deviations hold what sticking leaves in the residuals too, which is the same in every run.
    """
    runner, runs = Runner(ROBOT, SETTINGS, "hanging"), []
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        runs.append(runner.run(recorded(tmp_path / str(seed), "PA02", seed=seed), 0.04, "key"))
    for stage in ("ols", "clie"):
        records = [getattr(run, stage) for run in runs]
        scatter = np.std([one.phi for one in records], axis=0, ddof=1)
        said = np.mean([one.standard_deviations for one in records], axis=0)
        assert 0.1 < np.median(scatter / said) < 1.0 and np.sqrt(np.mean((scatter / said) ** 2)) < 1.5


def test_held_out_bags_that_choose_do_not_also_accept() -> None:
    """Of several held-out bags every second one chooses; a single one accepts."""
    bags = tuple("abc")
    whole = HeldOutSet(bags, bags, bags, ((), (), ()), ())  # type: ignore[arg-type]
    choosing, accepting = whole.parted()
    assert choosing.portions == ("b",) and accepting.portions == ("a", "c")
    assert accepting.regressions == accepting.plain == ("a", "c")
    single = replace(whole, portions=("a",), regressions=("a",), plain=("a",), torque_constants=((),))  # type: ignore
    choosing, accepting = single.parted()
    assert not choosing.portions and accepting.portions == ("a",)


def test_a_fitted_bag_is_refused_as_held_out_data(bags: Path, store: Path, found: Campaign) -> None:
    with pytest.raises(DataError, match="PA02 holds the same data as PA02"):
        start(bags, store, validation_bags=[bags / "V01", bags / "PA02"])


def test_no_feasible_model_is_an_error_with_reasons(bags: Path, tmp_path: Path) -> None:
    blind = SETTINGS.model_copy(update={"campaign_intervals_s": (TOO_LONG_S,)})
    with pytest.raises(DataError, match=r"0 runs ended feasible.*broken.*AP01 at 500 ms"):
        start(bags, tmp_path / "runs", ("AP01", "broken"), settings=blind)
    with pytest.raises(DataError, match="several bags are named AP01"):
        start(bags, tmp_path / "runs", ("AP01", "AP01"))
    with pytest.raises(InputNotFoundError, match="V09"):
        start(bags, tmp_path / "runs", validation_bags=[bags / "V09"])


def test_tables_contain_the_campaigns_results(found: Campaign) -> None:
    tables = {name: list(csv.DictReader(io.StringIO(text))) for name, text in campaign_tables(found).items()}
    assert [row["outcome"] for row in tables["runs"]] == [run.outcome for run in found.runs]
    first, record = tables["runs"][0], found.runs[0]
    assert float(first["kappa"]) == record.kappa and float(first["sampling_ms"]) == 20
    assert record.ols is not None and first["ols_pd"] == ("Y" if record.ols.lambda_min > 0 else "N")
    assert tables["routing"][-1]["total"] == "6" and tables["routing"][-1]["refused"] == "2"
    assert len(tables["parameters"]) == len(tables["rescue"]) == len(MODEL.names)
    changes = [abs(float(row["change"])) for row in tables["rescue"]]
    assert changes == sorted(changes, reverse=True)
    assert {row["parameters"] for row in tables["validation"]} >= {"CLIE", "result", "rescue", "direct fit"}
    trace = {(row["sampling_ms"], row["stage"]): float(row["trace_of_covariance"]) for row in tables["cloud_spread"]}
    assert trace["all", "CLIE"] == found.cloud.spread("CLIE")
    assert {row["bag"] for row in tables["failures"]} == set(BAD)


def test_files_are_complete_and_readable(found: Campaign, store: Path, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "out"
    shutil.copytree(store, work)
    write_result(identification_of(found, work), out)
    assert not work.exists() and len(list((out / "runs").iterdir())) == 6
    drawn = {path.name: path.read_text(encoding="utf-8") for path in (out / "figures").iterdir()}
    assert set(drawn) == {"spread.svg", "held_out.svg"} and all("<svg" in text for text in drawn.values())
    file = read_model_file(out / "model.yaml")
    assert file.base_parameters(MODEL).values == pytest.approx(found.study.result.consistent.base.values)
    assert file.feasibility == "consistent" and file.accepted == found.verdict.accepted
    simulated = mujoco.MjModel.from_xml_path(str(out / "model.xml"))
    armature = [simulated.dof_armature[simulated.joint(name).dofadr[0]] for name in ROBOT.joint_names]
    assert armature == pytest.approx(found.study.result.consistent.standard.axis("IA"), abs=1e-9)
    assert "Rotor inertias are NOT in this file" in (out / "model.urdf").read_text(encoding="utf-8")
    assert json.loads((out / "campaign.json").read_text(encoding="utf-8")) == json.loads(json.dumps(summary(found)))
    shutil.copytree(store, work, dirs_exist_ok=True)
    with pytest.raises(OutputExistsError):
        write_result(identification_of(found, work), out)
    assert len(list(work.iterdir())) >= 6  # the stored runs are still there
