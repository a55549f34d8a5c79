"""The page of `cortado evaluate` in a real Chromium: everybody can read it, without a network."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.clients import cli
from cortado.tests import needs
from cortado.tests.clients.axe import violations
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.speech import write

pytestmark = [pytest.mark.browser, needs.chromium]


@pytest.fixture(scope="module")
def report(model: Path, spoken: NDArray[np.float32], folder: Path) -> Path:
    """The report of two sets of a recording whose words are wrong in all ways."""
    write(folder / "one.wav", spoken)
    row = {"id": "one", "audio": "one.wav", "duration": 4.0, "speaker": "one"}
    manifests = [folder / "dev.jsonl", folder / "test.jsonl"]
    for manifest in manifests:
        manifest.write_text(json.dumps(row | {"text": "quite other words are said the old man"}))
    page, sets = folder / "report.html", [str(one) for one in manifests]
    assert cli.main(["evaluate", *sets, "--html", str(page), "--checkpoint", str(model)]) == 0
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_can_be_read_by_everybody(scheme: str, browser: Page, report: Path) -> None:
    browser.look(scheme)
    browser.messages.clear()
    browser.open(f"{report.as_uri()}?{scheme}")
    browser.wait_for("document.body.dataset.ready === 'yes'")
    browser.evaluate("document.querySelector('.picture').scrollIntoView()")
    browser.wait_for("document.querySelector('.picture svg')")
    assert violations(browser) == []
    assert browser.messages == []
    assert browser.evaluate("performance.getEntriesByType('resource').length") == 0
