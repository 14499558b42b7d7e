"""The pictures of README and documentation: the chain as SVG, and the top of a result's report as PNG.

Run: .venv/bin/python docs/images/make_images.py RESULT_FOLDER
(one that has a report.html; it needs playwright and Chromium).
"""

import io
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, HEIGHT = 925, 265
# box: title, lines below it, left, middle, width
BOXES = {
    "servos": ("servos", ("real, or simulated", "behind a pseudo-terminal"), 10, 140, 170),
    "hardware": ("hardware", ("1 kHz cycle, safety",), 225, 140, 140),
    "executor": ("executor", ("motions, control laws",), 225, 34, 140),
    "recorder": ("recorder", ("every topic",), 410, 140, 120),
    "bag": ("rosbag2", ("mcap or sqlite3",), 410, 232, 120),
    "identification": ("identification", ("estimate, project,", "audit, validate"), 575, 140, 140),
    "model": ("model", ("model.yaml, URDF,", "ROS parameters, report"), 755, 140, 160),
}
# from, to, text beside it, whether both ways
ARROWS = (
    ("servos", "hardware", "", True),
    ("hardware", "executor", "joint_states, joint_commands", True),
    ("hardware", "recorder", "", False),
    ("recorder", "bag", "", False),
    ("bag", "identification", "", False),
    ("identification", "model", "", False),
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


def height(name: str) -> int:
    """Height of a box in pixels."""
    return 34 + 17 * len(BOXES[name][1])


def chain_svg() -> str:
    """The chain as SVG, light or dark as the system is."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
        '<title id="t">The chain from servos to the model</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    for begin, end, text, both in ARROWS:
        x1, y1, x2, y2 = _ends(begin, end)
        start = ' marker-start="url(#a)"' if both else ""
        parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" marker-end="url(#a)"{start}/>')
        if text:
            parts.append(f'<text class="soft" x="{max(x1, x2) + 8}" y="{(y1 + y2) / 2 + 4}">{text}</text>')
    for name, (title, lines, x, y, width) in BOXES.items():
        top = y - height(name) / 2
        kind = ' class="result"' if name == "model" else ""
        parts.append(f'<rect{kind} x="{x}" y="{top}" width="{width}" height="{height(name)}" rx="8"/>')
        middle = x + width / 2
        parts.append(f'<text class="title" x="{middle}" y="{top + 23}" text-anchor="middle">{title}</text>')
        for k, line in enumerate(lines):
            parts.append(f'<text class="soft" x="{middle}" y="{top + 42 + 17 * k}" text-anchor="middle">{line}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ends(begin: str, end: str) -> tuple[float, float, float, float]:
    """Where an arrow leaves and meets the boxes: sides that face each other."""
    (_, _, x1, y1, w1), (_, _, x2, y2, _) = BOXES[begin], BOXES[end]
    if x2 >= x1 + w1:
        return x1 + w1 + 3, y1, x2 - 3, y2
    middle, up = x1 + w1 / 2, height(begin) / 2 + 3
    return (middle, y1 - up, middle, y2 + up) if y2 < y1 else (middle, y1 + up, middle, y2 - height(end) / 2 - 3)


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
    (HERE / "chain.svg").write_text(chain_svg(), encoding="utf-8")
