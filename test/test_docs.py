"""The documentation: the site builds without a dead link, its commands exist or run, and the examples run."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from benchmarks.cli import app
from benchmarks.paper_comparison import ENDS, REPRODUCE
from benchmarks.speed.known_models import reference_torques
from typer.testing import CliRunner

import dynid
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
EXECUTED = re.compile(r"<!-- executed -->\n```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def own_lines(text: str) -> list[str]:
    return [line for block in EXECUTED.findall(text) for line in block.splitlines() if line.strip()]


def run_line(line: str) -> None:
    """One `./run` line in this process, in the current folder."""
    words = shlex.split(line, comments=True)
    assert words[0] == "./run", line
    done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, f"{line}\n{done.stdout}"


def write_csv(path: Path, seed: int, load: float = 0.0) -> None:
    """Forty seconds of a PUMA 560 as CSV, with the columns of docs/your_robot.md; a load is a mass at the flange."""
    robot = load_robot("puma560")
    rng, t = np.random.default_rng(seed), np.arange(0.0, 40.0, 0.01)
    q, dq, ddq = np.zeros((3, len(t), robot.size))
    middle, half = 0.5 * (robot.lower + robot.upper), 0.5 * np.minimum(robot.upper - robot.lower, 4.0)
    for j in range(robot.size):
        shares = rng.dirichlet(np.ones(4)) * 0.9 * half[j]
        for share, frequency, phase in zip(shares, rng.uniform(0.15, 0.7, 4), rng.uniform(0, 6, 4), strict=True):
            w = 2 * np.pi * frequency
            q[:, j] += share * np.sin(w * t + phase)
            dq[:, j] += share * w * np.cos(w * t + phase)
            ddq[:, j] -= share * w**2 * np.sin(w * t + phase)
    model = ArmModel.of(robot)
    standard = load_standard(robot.folder / "models/nominal.yaml", model.mdh, model.regrouping.standard)
    values = np.array(standard.values)
    values[10 * (robot.chain_size - 1) + 9] += load
    q += middle
    tau = model.regressor(q, dq, ddq) @ (model.regrouping.K @ values)
    tau += 0.001 * robot.torque_limits * rng.normal(size=tau.shape)
    header = ",".join(["t", *(f"q{j}" for j in range(6)), *(f"tau{j}" for j in range(6))])
    np.savetxt(path, np.column_stack([t, q, tau]), delimiter=",", header=header, comments="", fmt="%.9g")


def prepare(page: str, folder: Path) -> None:
    """What a page takes for granted: an arm's URDF and its recordings."""
    if page == "your_robot.md":
        shutil.copy(load_robot("puma560").urdf_path, folder / "my_arm.urdf")
        write_csv(folder / "run.csv", 1)
        write_csv(folder / "other.csv", 2, load=1.0)
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        mapping = next(block for block in blocks if "\ntime:" in block)
        (folder / "mapping.yaml").write_text(mapping, encoding="utf-8")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    """Where the commands of docs/start.md have run; the examples go on with what they made."""
    folder, before = tmp_path_factory.mktemp("docs"), Path.cwd()
    os.chdir(folder)
    try:
        for line in own_lines((ROOT / "docs/start.md").read_text(encoding="utf-8")):
            run_line(line)
    finally:
        os.chdir(before)
    return folder


@pytest.mark.slow
def test_the_commands_of_the_start_page_run(workplace: Path) -> None:
    lines = own_lines((ROOT / "docs/start.md").read_text(encoding="utf-8"))
    assert len(lines) == 8
    assert (workplace / "runs/comparison.html").is_file()
    told = re.findall(r"^\| `([\w.]+)` \|", (ROOT / "docs/start.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(path.name for path in (workplace / "runs/model").iterdir())


@pytest.mark.slow
def test_the_commands_of_the_page_on_own_robots_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare("your_robot.md", tmp_path)
    lines = own_lines((ROOT / "docs/your_robot.md").read_text(encoding="utf-8"))
    for line in lines:
        words = shlex.split(line)[1:]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        undecided = words[:2] == ["robot", "check"]  # what was drafted a moment ago holds questions still
        assert done.exit_code == int(undecided), f"{line}\n{done.stdout}"
    assert len(lines) == 9 and (tmp_path / "runs/model/report.html").is_file()


PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON_PAGES = ("README.md", "docs/controller.md", "docs/friction.md", "docs/methods.md", "docs/two_arms.md")


def python_blocks(page: str) -> list[str]:
    """All Python of a page, block by block."""
    return PYTHON.findall((ROOT / page).read_text(encoding="utf-8"))


def given_names(robot: Any, folder: Path, written: list[np.ndarray]) -> dict[str, Any]:
    """What pages take for granted: states, bags, an arm that is read and written, and recorded columns."""
    q, dq, ddq = 0.2 * np.random.default_rng(1).uniform(-1.0, 1.0, (3, 50, robot.size))
    columns = {key: q for key in ("observation.state", "action", "observation.effort", "action.effort")}
    columns |= {f"{key}.external_torque": q for key in ("observation", "action")}
    return {
        "robot": robot,
        "q": q,
        "dq": dq,
        "ddq": ddq,
        "motion": list(zip(q, dq, ddq, strict=True)),
        "read_positions": lambda: q[0],
        "write_torques": lambda tau: written.append(tau.copy()),
        "bags": ["runs/bags/V01"],
        "folder": folder / "episodes",
        "time_s": np.arange(50) / 50.0,
        "columns": columns,
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_of_a_page_runs_and_its_torques_are_the_models(
    page: str, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/bags").symlink_to(workplace / "runs/bags")
    if page != "README.md":  # which writes it
        (tmp_path / "runs/model").symlink_to(workplace / "runs/model")
    monkeypatch.chdir(tmp_path)
    robot, written = load_robot("crane_x7"), list[np.ndarray]()
    names = given_names(robot, tmp_path, written) | {"dynid": dynid}
    for block in python_blocks(page):
        names.pop("tau", None)
        exec(compile(block, page, "exec"), names)
        if "tau" in names:
            check_torques(names, written)
    if "error" in names:  # of the loop in MuJoCo
        assert 0.0 < np.rad2deg(names["error"]).max() < 0.2


def check_torques(names: dict[str, Any], written: list[np.ndarray]) -> None:
    """Compare the torques that a block computed for given states, or wrote in a loop, with those of the model."""
    model = dynid.load_model("runs/model")
    q, dq, ddq = (names[key] for key in ("q", "dq", "ddq"))
    if not written:
        np.testing.assert_allclose(names["tau"], reference_torques(model, q, dq, ddq), atol=1e-9)
        return
    assert len(written) == len(q) and names["tau"] is names["controller"].tau
    again = model.controller(500.0)
    again.reset(q[0])
    for one, row in zip(written, zip(q, dq, ddq, strict=True), strict=True):
        np.testing.assert_allclose(one, again.step(q[0], *row), atol=1e-9)
    at_rest = model.controller(500.0, friction_share=0.0).step(q[0], q[0], 0 * dq[0], 0 * dq[0], dq=0 * dq[0])
    offsets = 0.0 if model.friction_law is None else model.friction_law["of"]
    np.testing.assert_allclose(at_rest, model.gravity(q[0]) + offsets, atol=1e-9)


def test_every_page_with_python_is_tested() -> None:
    pages = [ROOT / "README.md", *PAGES]
    assert tuple(str(one.relative_to(ROOT)) for one in pages if PYTHON.search(one.read_text())) == PYTHON_PAGES


def test_the_paper_comparison_lists_existing_commands() -> None:
    """The page is the script's output; its commands, options and files exist."""
    text = (ROOT / "docs/paper_comparison.md").read_text(encoding="utf-8")
    assert f"```sh\n{REPRODUCE}```" in text and ENDS in text
    commands = typer.main.get_command(app)
    for line in REPRODUCE.replace("\\\n", " ").splitlines():
        words = [word for word in shlex.split(line) if not word.startswith("PYTHONPATH")]
        for word in words:
            assert not word.startswith(("config/", "benchmarks/")) or (ROOT / word).is_file(), word
        if words[0] == "./run":
            known = commands.get_command(None, words[1])
            assert {word for word in words if word.startswith("--")} <= {
                name for one in known.params for name in one.opts
            }


def test_only_marked_blocks_run_and_all_of_them_are_tested() -> None:
    marked = {page.name for page in PAGES if own_lines(page.read_text(encoding="utf-8"))}
    assert marked == {"start.md", "your_robot.md"}


# -- examples --------------------------------------------------------------------------------------------------


def example(name: str, *arguments: object) -> str:
    """Run an example in a new interpreter and return its output."""
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_identify_example_gives_the_model_of_the_start_page(workplace: Path, tmp_path: Path) -> None:
    bags = workplace / "runs/bags"
    text = example("identify.py", tmp_path / "model", bags / "demo_identification", "--validate", bags / "V01")
    assert "\naccepted\n" in text and "report.html" in text and "relative torque error, V01" in text and "+-" in text
    made, shown = ((folder / "model.yaml").read_text() for folder in (tmp_path / "model", workplace / "runs/model"))
    assert yaml.safe_load(made)["parameters"] == yaml.safe_load(shown)["parameters"]


@pytest.mark.slow
def test_gravity_compensation_carries_the_arm(workplace: Path) -> None:
    text = example("gravity_compensation.py", workplace / "runs/model_smooth/model.yaml")
    without, own = (float(one) for one in re.findall(r"moved ([\d.]+) deg", text))
    assert without > 30.0 and own < 5.0


@pytest.mark.slow
def test_arm_in_mujoco_tracks_without_a_display(workplace: Path) -> None:
    text = example("mujoco_viewer.py", workplace / "runs/model_smooth", "--seconds", 3)
    errors = [float(one) for one in re.findall(r"largest tracking error ([\d.]+) deg", text)]
    assert len(errors) == 8 and max(errors) < 0.2


@pytest.mark.slow
def test_mujoco_sysid_starts_from_a_result(workplace: Path) -> None:
    if not hasattr(pytest.importorskip("mujoco.sysid"), "ParameterDict"):  # which is empty without its dependencies
        pytest.skip("mujoco[sysid] is not installed")
    bag = workplace / "runs/bags/V01"
    text = example("mujoco_sysid.py", workplace / "runs/model", bag, "--windows", 3, "--iterations", 2)
    free, frozen, before, after = re.findall(r"(\d+) free, (\d+) frozen; cost (\S+) -> (\S+)", text)[0]
    assert int(free) + int(frozen) == 3 * 8 + 7 and int(free) >= 8
    assert float(after) < float(before)
    for value, low, high in re.findall(r"-> (\S+), within (\S+) to (\S+)", text):
        assert float(low) <= float(value) <= float(high)


@pytest.mark.slow
def test_the_plot_example_draws_a_bag(workplace: Path, tmp_path: Path) -> None:
    text = example("plot_bag.py", workplace / "runs/bags/V01", tmp_path / "bag.png")
    assert "samples of 8 joints" in text and (tmp_path / "bag.png").stat().st_size > 10_000


def test_every_example_is_tested_and_named_in_the_documentation() -> None:
    names = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    assert names == ["gravity_compensation.py", "identify.py", "mujoco_sysid.py", "mujoco_viewer.py", "plot_bag.py"]
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"examples/{name}" in told for name in names)


LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s#]+)[^)]*\)")


def test_links_between_files_work_in_the_tree_too() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    targets = [(page, link) for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))]
    dead = [f"{page.name}: {link}" for page, link in targets if "://" not in link and not (page.parent / link).exists()]
    assert len(targets) > 100 and dead == []


# -- site ------------------------------------------------------------------------------------------------------


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=800)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the site is made from."""
    pytest.importorskip("mkdocstrings", reason="mkdocs is not installed: pip install -e '.[docs]'")
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("src", "config", "benchmarks", "examples", "test", "docker", "launch", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.study
def test_the_site_builds_without_a_dead_link(tree: Path) -> None:
    done = build(tree / "mkdocs.yml", tree / "site")
    assert done.returncode == 0, done.stderr
    commands = (tree / "site/reference/commands.html").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    for name in root.list_commands(root.make_context("dynid", [], resilient_parsing=True)):
        assert f'id="dynid-{name}"' in commands
    files = (tree / "site/reference/files.html").read_text(encoding="utf-8")
    assert "relative_torque_error" in files and "pseudo_inertia_margin" in files
    api = (tree / "site/reference/api/model.html").read_text(encoding="utf-8")
    assert 'id="dynid.model.dynamics.ArmModel.inverse_dynamics"' in api and "Torque" in api
    interface = (tree / "site/interface.html").read_text(encoding="utf-8")
    assert "joint_commands" in interface and "model_file" in interface
    loaded = re.findall(r'(?:src|href)="(https?://[^"]+)"', (tree / "site/start.html").read_text(encoding="utf-8"))
    assert not [one for one in loaded if one.endswith((".js", ".css")) or "font" in one]


@pytest.mark.slow
def test_a_dead_link_is_found(tree: Path) -> None:
    page = tree / "docs/start.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nSee [nothing](nowhere.md).\n", encoding="utf-8")
    config = yaml.load((tree / "mkdocs.yml").read_text(), yaml.SafeLoader)
    config["plugins"] = ["search"]  # the API's pages take time and have no part in this
    (tree / "mkdocs.yml").write_text(yaml.safe_dump(config))
    done = build(tree / "mkdocs.yml", tree / "site")
    assert done.returncode != 0 and "nowhere.md" in done.stderr


def test_pictures_are_small_and_drawings_are_what_their_command_draws() -> None:
    images = ROOT / "docs/images"
    assert all(path.stat().st_size < 200_000 for path in images.iterdir())
    make = runpy.run_path(str(images / "make_images.py"))
    for name, text in make["drawings"]().items():
        assert text == (images / name).read_text(encoding="utf-8"), name
