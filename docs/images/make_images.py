"""The pictures of README and documentation: the chain and the data flow as SVG, and the top of a report as PNG.

Run: .venv/bin/python docs/images/make_images.py RESULT_FOLDER
(one that has a report.html; it needs playwright and Chromium).
"""

import io
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
WIDTH = 925
# name: title, lines below it, left, middle, width
Boxes = dict[str, tuple[str, tuple[str, ...], int, int, int]]
# from, to, text beside the arrow, whether both ways
Arrows = tuple[tuple[str, str, str, bool], ...]
CHAIN: Boxes = {
    "servos": ("servos", ("real, or simulated", "behind a pseudo-terminal"), 10, 140, 170),
    "hardware": ("hardware", ("1 kHz cycle, safety",), 225, 140, 140),
    "executor": ("executor", ("motions, control laws",), 225, 34, 140),
    "recorder": ("recorder", ("every topic",), 410, 140, 120),
    "bag": ("rosbag2", ("mcap or sqlite3",), 410, 232, 120),
    "identification": ("identification", ("estimate, project,", "audit, validate"), 575, 140, 140),
    "model": ("model", ("model.yaml, URDF,", "ROS parameters, report"), 755, 140, 160),
}
CHAIN_ARROWS: Arrows = (
    ("servos", "hardware", "", True),
    ("hardware", "executor", "joint_states, joint_commands", True),
    ("hardware", "recorder", "", False),
    ("recorder", "bag", "", False),
    ("bag", "identification", "", False),
    ("identification", "model", "", False),
)
# the source files of each step, relative to src/dynid
FLOW: Boxes = {
    "servos": ("servos", ("real, or simulated:", "simulation/bus/servo_bus.py"), 10, 72, 255),
    "driver": (
        "driver: bytes to currents",
        (
            "hardware/bus/state_cycle.py",
            "hardware/arm/dynamixel_arm.py",
            "hardware/loop/arm_cycle.py",
            "hardware/safety/guard.py",
            "nodes/hardware_node.py",
        ),
        *(330, 72, 265),
    ),
    "executor": (
        "executor: states to torques",
        ("nodes/executor_node.py", "control/motion.py", "control/arm_controller.py", "control/model_laws.py"),
        *(660, 72, 255),
    ),
    "arm": (
        "robot and model",
        ("used by most steps:", "robot/robot.py", "model/dynamics.py", "model/friction.py"),
        *(10, 216, 255),
    ),
    "recorder": ("recorder: topics to a bag", ("nodes/recorder_node.py", "recording/bag_writer.py"), 330, 216, 265),
    "recording": ("bag to arrays", ("recording/bag_reader.py", "recording/driver_recording.py"), 660, 216, 255),
    "rows": (
        "arrays to samples",
        ("identification/prepared.py", "identification/data/recordings.py", "identification/data/preprocessing.py"),
        *(660, 336, 255),
    ),
    "estimate": (
        "samples to an estimate",
        ("identification/pipeline.py", "identification/estimators/table.py", "identification/estimators/regression.py"),
        *(330, 336, 265),
    ),
    "consistent": (
        "to a consistent model",
        ("identification/feasibility/consistent.py", "identification/feasibility/audit.py"),
        *(10, 336, 255),
    ),
    "verdict": ("model to verdict", ("identification/held_out.py", "identification/checks.py"), 10, 456, 255),
    "model": (
        "model.yaml, URDF, report",
        ("model/model_file.py", "export/result_files.py", "reporting/result_writer.py"),
        *(330, 456, 265),
    ),
}
FLOW_ARROWS: Arrows = (
    ("servos", "driver", "", True),
    ("driver", "executor", "", True),
    ("driver", "recorder", "", False),
    ("recorder", "recording", "", False),
    ("recording", "rows", "", False),
    ("rows", "estimate", "", False),
    ("estimate", "consistent", "", False),
    ("consistent", "verdict", "", False),
    ("verdict", "model", "", False),
)
STYLE = """
  text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2330; }
  .title { font-weight: 700; font-size: 15px; }
  .soft { fill: #566072; font-size: 12px; }
  rect { fill: #eef2f7; stroke: #5b6577; } .result { fill: #e4f4ea; stroke: #0f6b3c; }
  path { stroke: #5b6577; stroke-width: 2; fill: none; } marker path { fill: #5b6577; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8ecf3; } .soft { fill: #a3aec0; } rect { fill: #1d2430; stroke: #a3aec0; }
    .result { fill: #12301f; stroke: #6fdb9d; } path { stroke: #a3aec0; } marker path { fill: #a3aec0; }
  }
"""


def height(lines: tuple[str, ...]) -> int:
    """Height of a box with these lines in pixels."""
    return 34 + 17 * len(lines)


def svg(about: str, pixels: int, boxes: Boxes, arrows: Arrows) -> str:
    """Boxes and arrows as SVG of this height, light or dark as the system is."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {pixels}" role="img" aria-labelledby="t">',
        f'<title id="t">{about}</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    for begin, end, text, both in arrows:
        x1, y1, x2, y2 = _ends(boxes, begin, end)
        start = ' marker-start="url(#a)"' if both else ""
        parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" marker-end="url(#a)"{start}/>')
        if text:
            parts.append(f'<text class="soft" x="{max(x1, x2) + 8}" y="{(y1 + y2) / 2 + 4}">{text}</text>')
    for name, (title, lines, x, y, width) in boxes.items():
        top = y - height(lines) / 2
        kind = ' class="result"' if name == "model" else ""
        parts.append(f'<rect{kind} x="{x}" y="{top}" width="{width}" height="{height(lines)}" rx="8"/>')
        middle = x + width / 2
        parts.append(f'<text class="title" x="{middle}" y="{top + 23}" text-anchor="middle">{title}</text>')
        for k, line in enumerate(lines):
            parts.append(f'<text class="soft" x="{middle}" y="{top + 42 + 17 * k}" text-anchor="middle">{line}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ends(boxes: Boxes, begin: str, end: str) -> tuple[float, float, float, float]:
    """Points at which an arrow leaves and meets the boxes, on the sides that face each other."""
    (_, lines1, x1, y1, w1), (_, lines2, x2, y2, w2) = boxes[begin], boxes[end]
    if x2 >= x1 + w1:
        return x1 + w1 + 3, y1, x2 - 3, y2
    if x2 + w2 <= x1:
        return x1 - 3, y1, x2 + w2 + 3, y2
    middle, half1, half2 = x1 + w1 / 2, height(lines1) / 2 + 3, height(lines2) / 2 + 3
    return (middle, y1 - half1, middle, y2 + half2) if y2 < y1 else (middle, y1 + half1, middle, y2 - half2)


def drawings() -> dict[str, str]:
    """The text of every SVG by its file name."""
    return {
        "chain.svg": svg("The chain from servos to the model", 265, CHAIN, CHAIN_ARROWS),
        "reading.svg": svg("The source files from the serial line to the model", 515, FLOW, FLOW_ARROWS),
    }


def report_png(report: Path) -> bytes:
    """The top of a report as a browser shows it, with few colours, which makes it small."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as library:
        browser = library.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1180}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    small, content = picture.convert("RGB").quantize(64), io.BytesIO()
    small.save(content, "PNG", optimize=True)
    return content.getvalue()


if __name__ == "__main__":
    (HERE / "report.png").write_bytes(report_png(Path(sys.argv[1]) / "report.html"))
    for name, text in drawings().items():
        (HERE / name).write_text(text, encoding="utf-8")
