"""docs/friction.md names every term of the law, and the worked example of CONTRIBUTING.md adds one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynid.model.friction import TERMS

ROOT = Path(__file__).resolve().parents[1]
LAW, PAGE = ROOT / "src/dynid/model/friction.py", ROOT / "docs/friction.md"
PROBE = """
import mujoco
import numpy as np
from dynid.export.mujoco_friction import MujocoFriction
from dynid.model.bam import bam_text
from dynid.model.friction import SYMBOLS, TERMS, FrictionLaw
from dynid.simulation.plant.gear_friction import GearFriction

usual = {"fv": 0.02, "fb": 0.1, "fs": 0.1, "km": 0.3, "kms": 0.1, "kes": 0.02, "ws": 2.0, "a": 0.9}
old, new = FrictionLaw.of(1, usual), FrictionLaw.of(1, usual | {"fq": 0.05})
dq, te, h = np.array([[-2.0], [0.5], [3.0]]), 1.5, 1e-6
tm = new.motor_torque(dq, 2.0, te)
np.testing.assert_allclose(new.torque(dq, tm, te) - old.torque(dq, tm, te), 0.05 * np.sign(dq) * dq**2)
np.testing.assert_allclose(tm - new.torque(dq, tm, te), 2.0)
rise = (new.torque(dq + h, tm, te) - new.torque(dq - h, tm, te)) / (2 * h)
np.testing.assert_allclose(new.derivatives(dq, tm, te)[0], rise, rtol=1e-6)
column = new.gradient(dq, tm, te)[..., SYMBOLS.index("fq")]
np.testing.assert_allclose(column, np.sign(dq) * dq**2)
text = '<mujoco><worldbody><body><joint name="j" axis="0 0 1"/><geom size="0.1"/></body></worldbody></mujoco>'
plant = lambda m, d: GearFriction(new, (0.0, 1.0), m, d).update(0.0)
exported = lambda m, d: MujocoFriction(m, new, ["j"]).update(d)
for write in (plant, exported):
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = 2.0
    mujoco.mj_forward(model, data)
    write(model, data)
    np.testing.assert_allclose(model.dof_frictionloss, new.budget(np.array([2.0]), 0.0, -data.qfrc_bias))
assert "BAM cannot hold" in bam_text(new, 0, actuator="mx64", rotor_inertia=0.01)
print([(term.prefix, term.symbol, term.unit) for term in TERMS][-1])
"""


def rows(page: str) -> list[tuple[str, str, str]]:
    """Name, symbol and unit of the terms in the table of the page."""
    table = page[page.index("| name | symbol | unit | what |") :].split("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \| (\w+) \| (\S+) \|", table, re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The section's code blocks."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index("## Adding a friction term") :].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def patched(text: str, diff: str) -> str:
    """The text with every run of `-` lines, each there once, replaced by the `+` lines behind it."""
    for removed, added in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        old, new = ("\n".join(line[1:] for line in part.splitlines()) for part in (removed, added))
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_table_names_every_term_of_the_law() -> None:
    assert rows(PAGE.read_text(encoding="utf-8")) == [(term.prefix, term.symbol, term.unit) for term in TERMS]


@pytest.mark.parametrize(("old", "new"), [("| `KM` |", "| `KN` |"), ("| rad/s |", "| 1/s |"), ("| `OF` |", "| OF |")])
def test_different_table_is_detected(old: str, new: str) -> None:
    page = PAGE.read_text(encoding="utf-8").replace(old, new)
    assert rows(page) != [(term.prefix, term.symbol, term.unit) for term in TERMS]


@pytest.mark.slow
def test_the_worked_example_adds_a_term_in_one_file_and_one_row(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src/dynid", tmp_path / "dynid", ignore=shutil.ignore_patterns("__pycache__"))
    (diff,), (row,) = blocks("diff"), blocks("text")
    law = tmp_path / "dynid/model/friction.py"
    law.write_text(patched(LAW.read_text(encoding="utf-8"), diff), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = PAGE.read_text(encoding="utf-8")
    told = rows(page.replace("| `WS` |", f"{row}| `WS` |"))
    assert str(next(one for one in told if one[0] == "FQ")) == done.stdout.strip()


def test_outdated_example_is_detected() -> None:
    with pytest.raises(AssertionError, match="nowhere"):
        patched(LAW.read_text(encoding="utf-8"), "-    nowhere in the file\n+    something\n")
