"""The report in a real headless Chromium: no script error, no network, charts that draw, zoom and follow the theme."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dynid.reporting.report import write_report
from dynid.reporting.result_folder import open_result

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (Debian: apt install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as library:
        found = library.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, planar_result: Path) -> Iterator[Any]:
    """The report in a window; what it asks for and what goes wrong are lists beside it."""
    window = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    window.asked, window.faults = [], []
    window.on("request", lambda request: window.asked.append(request.url))
    window.on("pageerror", lambda error: window.faults.append(str(error)))
    window.on("console", lambda message: window.faults.append(message.text))
    window.goto((planar_result / "report.html").as_uri())
    yield window
    window.close()


@pytest.mark.slow
def test_charts_are_there_without_errors_and_without_network(page: Any, planar_result: Path, tmp_path: Path) -> None:
    assert page.faults == []
    assert page.asked == [(planar_result / "report.html").as_uri()]
    charts = page.locator("svg[role=img]")
    assert charts.count() == 3 * 4 + 2  # per joint torque, distribution, autocorrelation, velocity; stages and pose
    for k in range(charts.count()):
        assert charts.nth(k).get_attribute("aria-label")
        assert charts.nth(k).locator("path, rect, circle").count() > 0
    assert page.locator("#charts-torque path[d^=M]").count() == 3 * (2 + 2)  # with both edges of the band
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    assert (tmp_path / "report.png").stat().st_size > 50_000


def test_wide_table_is_marked_as_scrollable(page: Any) -> None:
    wide = (
        "[...document.querySelectorAll('.scroll')].filter((one) => "
        "one.checkVisibility({contentVisibilityAuto: true}) && one.scrollWidth > one.clientWidth + 1)"
    )
    shown = "(one) => getComputedStyle(one, '::before').content.includes('scroll sideways')"
    drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.set_viewport_size({"width": 340, "height": 700})
    page.evaluate(drawn)
    assert page.evaluate(f"{wide}.length > 0 && {wide}.every({shown})")
    page.set_viewport_size({"width": 3000, "height": 900})
    page.evaluate(drawn)
    assert page.evaluate(f"{wide}.length === 0 && ![...document.querySelectorAll('.scroll')].some({shown})")
    assert page.faults == []


def test_network_requests_are_detected_and_blocked(page: Any) -> None:
    """The test above can fail: what asks for something from elsewhere is told by the browser, and blocked."""
    with page.expect_console_message():
        page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
    assert any("Content Security Policy" in text for text in page.faults)


@pytest.mark.slow
def test_zoom_by_mouse_and_keyboard_moves_all_joints(page: Any) -> None:
    paths = page.locator("#charts-torque path[d^=M]")
    before = [paths.nth(k).get_attribute("d") for k in range(6)]
    page.locator("#charts-torque svg").first.scroll_into_view_if_needed()
    box = page.locator("#charts-torque svg").first.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60)
    page.mouse.up()
    zoomed = [paths.nth(k).get_attribute("d") for k in range(6)]
    assert all(a != b for a, b in zip(before, zoomed, strict=True))
    page.get_by_role("button", name="Whole motion").click()
    assert [paths.nth(k).get_attribute("d") for k in range(6)] == before
    page.locator("#charts-torque svg").nth(1).focus()
    page.keyboard.press("+")
    assert paths.first.get_attribute("d") != before[0]
    page.keyboard.press("Escape")
    assert paths.first.get_attribute("d") == before[0]


@pytest.mark.slow
def test_choosing_another_motion_redraws_the_charts(page: Any) -> None:
    first = page.locator("#charts-torque path[d^=M]").first
    before = first.get_attribute("d")
    page.locator("#torques select").select_option("1")
    assert first.get_attribute("d") != before
    assert page.locator("#residuals select").input_value() == "1"


@pytest.mark.slow
def test_dark_print_and_narrow_layouts_are_applied(page: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(colour) == "rgb(255, 255, 255)" and not page.locator("nav").is_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_headings_and_tables_are_accessible(page: Any) -> None:
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 2 for before, after in pairwise(levels))
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("table th:not([scope])").count() == 0
    assert page.locator("select:not(label select), input:not(label input)").count() == 0


@pytest.mark.slow
def test_a_comparison_draws_both_predictions(browser: Any, planar_result: Path, tmp_path: Path) -> None:
    first = open_result(planar_result)
    write_report(first, tmp_path / "both.html", [first])
    window = browser.new_page()
    faults: list[str] = []
    window.on("pageerror", lambda error: faults.append(str(error)))
    window.on("console", lambda message: faults.append(message.text))
    window.goto((tmp_path / "both.html").as_uri())
    assert faults == [] and window.locator("#charts-torque path[d^=M]").count() == 3 * (3 + 2)
    assert "predicted by model (2)" in window.locator("#torques .legend").inner_text()
    assert window.locator("#chart-compare-joints rect[opacity]").count() == 2 * 3
    window.close()
