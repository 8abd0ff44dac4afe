"""`make report` in a real browser without a network: Chromium shows every picture and the video."""

import json
import shutil
import subprocess
import time
import urllib.request

import numpy as np
import pytest
from websockets.sync.client import connect

from re3_jax.commands import report
from re3_jax.runs import video
from tests.cli.test_report import write_training
from tests.cli.written_runs import write_run

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60
SHOWN = """({
  ready: document.readyState,
  requests: performance.getEntriesByType('resource').map(entry => entry.name),
  pictures: [...document.images].map(image => image.complete && image.naturalWidth),
  videos: [...document.querySelectorAll('video')].map(film => [film.readyState, film.videoWidth]),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  folded: document.querySelectorAll('details:not([open])').length,
})"""


@pytest.fixture
def browser(tmp_path):
    """The folder of a Chromium without a window, whose every connection would fail."""
    name = next(filter(shutil.which, BROWSERS), None)
    if name is None:
        pytest.skip("needs the browser Chromium")
    profile = tmp_path / "profile"
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    words += [f"--user-data-dir={profile}", "--proxy-server=127.0.0.1:9", "about:blank"]
    process = subprocess.Popen([name, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield profile
    process.kill()
    process.wait()


def until(ask, is_enough):
    """The first answer that is enough, or the last one."""
    deadline = time.monotonic() + PATIENCE
    while not is_enough(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer


def shown(profile, page):
    """What the browser says about a page once everything in it is there."""
    ports = profile / "DevToolsActivePort"
    assert until(ports.exists, bool)
    port = ports.read_text().splitlines()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        (tab,) = (one for one in json.load(answer) if one["type"] == "page")
    with connect(tab["webSocketDebuggerUrl"], max_size=None) as tools:

        def call(method, **given):
            tools.send(json.dumps({"id": 1, "method": method, "params": given}))
            return next(found for line in tools if (found := json.loads(line)).get("id") == 1)

        def ask():
            found = call("Runtime.evaluate", expression=SHOWN, returnByValue=True)
            return found["result"]["result"].get("value", {"ready": "", "videos": []})

        call("Page.navigate", url=page.as_uri())
        return until(
            ask,
            lambda seen: seen["ready"] == "complete" and all(film[0] for film in seen["videos"]),
        )


@pytest.mark.slow
def test_chromium_shows_the_whole_report_without_a_network(browser, tmp_path):
    random = np.random.default_rng(0)
    folders = [
        write_run(tmp_path / name, name, random.normal(0.5, 0.2, size=3))
        for name in ("none", "re3")
    ]
    bonus = {f"intrinsic_reward_{end}": random.random((3, 40)) for end in ("p05", "p50", "p95")}
    write_training(folders[1], 3, loss=random.random((3, 40)), **bonus)
    video.write(folders[1] / "eval.mp4", list(random.integers(0, 255, (30, 64, 64, 3), np.uint8)))
    page = tmp_path / "report.html"
    assert report.main([*map(str, folders), "--out", str(page)]) == 0
    seen = shown(browser, page)
    assert seen["ready"] == "complete" and not seen["wide"] and seen["folded"] > 0
    assert len(seen["pictures"]) >= 3 and all(width > 300 for width in seen["pictures"])
    # The first frame is decoded, 320 pixels wide.
    ((ready, width),) = seen["videos"]
    assert ready >= 2 and width == 320
    assert all(name.startswith("data:") for name in seen["requests"])
