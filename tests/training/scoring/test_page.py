"""The page of an evaluation: it holds all it needs, opens in Chromium and can be sorted."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from cortado.model.audio.decode import decode
from cortado.model.backends.choice import choose
from cortado.model.progress import unwatched
from cortado.tests import needs
from cortado.tests.clients.chromium import chromium
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.data.manifest import Utterance
from cortado.training.scoring.comparison import compared, read_other
from cortado.training.scoring.evaluate import Rules, SetScore, evaluate
from cortado.training.scoring.outputs import write_json
from cortado.training.scoring.page import PagePlan, write_page
from cortado.training.scoring.page_media import opus, picture
from cortado.training.scoring.systems import served


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SetScore]]:
    folder = tmp_path_factory.mktemp("page")
    recognizer = untrained(MODEL).recognizer
    said = []
    for k, text in enumerate(["a cat", "</script> & <b>", "no no no"]):
        soundfile.write(folder / f"{k}.wav", noise(k, 1.0), 16_000)
        fields = {"accent": "north" if k else "south"}
        said.append(
            Utterance(f"<!--<script>{k}", folder / f"{k}.wav", 1.0, f"s{k}", text, fields=fields)
        )
    sets = [NamedSet("tiny/dev", tuple(said))]
    system = served(choose(recognizer), "untrained", recognizer)
    found = evaluate(system, sets, Rules.named(), unwatched)
    write_json(found, folder / "before.json")
    comparisons = compared(found, read_other(folder / "before.json"))
    plan = PagePlan(2, ("accent",), comparisons)
    write_page(found, folder / "page.html", recognizer, plan, unwatched)
    return folder / "page.html", found


def data(page: Path) -> dict[str, Any]:
    text = page.read_text()
    assert "<!--" not in text.replace("<!-- ", "")
    return json.loads(re.findall(r'id="data">(.*?)</script>', text, re.S)[0])


def test_the_page_refers_to_nothing_outside_itself(written: tuple[Path, list[SetScore]]) -> None:
    text = written[0].read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", text)
    assert "http" not in re.sub(r"base64,[\w+/=]*", "", text)
    assert "@import" not in text


def test_the_page_s_data_are_those_of_the_evaluation(
    written: tuple[Path, list[SetScore]],
) -> None:
    page, [found] = written
    [shown] = data(page)["sets"]
    assert found.score is not None
    assert shown["score"]["wer"] == found.score.wer
    assert [one["name"] for one in shown["groups"]] == ["speaker", "length", "accent"]
    assert len(shown["rows"]) == 3
    assert len(shown["worst"]) == 2
    for one in shown["worst"]:
        assert one["audio"].startswith("data:audio/ogg;base64,")
        assert one["attention"]["picture"].startswith("data:image/png;base64,")


def test_sound_inside_the_page_is_what_was_recorded(tmp_path: Path) -> None:
    seconds = np.arange(16_000) / 16_000
    samples = (0.3 * np.sin(2 * np.pi * 440 * seconds)).astype(np.float32)
    (tmp_path / "a.ogg").write_bytes(base64.b64decode(opus(samples).partition(",")[2]))
    heard = decode(tmp_path / "a.ogg")
    assert len(heard) == pytest.approx(len(samples), abs=800)
    spectrum = np.abs(np.fft.rfft(heard[4_000:12_000]))
    assert spectrum.argmax() * 2 == 440


def test_a_log_mel_picture_is_a_png_of_half_the_points() -> None:
    from matplotlib.image import imread

    logmel = np.zeros((80, 101), np.float32)
    logmel[:40, :50] = 5.0  # the lower bands, the first half
    png = base64.b64decode(picture(logmel, (10, 20, 30)).partition(",")[2])
    found = imread(io.BytesIO(png))
    assert found.shape == (40, 50, 4)
    assert found[-1, 0, 3] == 1
    assert found[0, 0, 3] == found[-1, -1, 3] == 0


@pytest.mark.browser
@needs.chromium
def test_the_page_opens_and_its_tables_sort(
    written: tuple[Path, list[SetScore]], tmp_path: Path
) -> None:
    with chromium(tmp_path) as page:
        page.look("dark")
        page.open(written[0].as_uri())
        page.wait_for("document.body.dataset.ready === 'yes'")
        assert page.messages == []
        table = "[...document.querySelectorAll('article table')].at(-1)"
        heads = f"{table}.querySelectorAll('th button')"
        first = f"{table}.querySelector('td').innerText"
        page.evaluate(f"{heads}[0].click()")
        assert page.evaluate(first) == "<!--<script>0"
        page.evaluate(f"{heads}[0].click()")
        assert page.evaluate(first) == "<!--<script>2"
        assert "</script>" in page.evaluate("document.body.innerText")
        page.evaluate("document.querySelector('.picture').scrollIntoView()")
        page.wait_for("document.querySelector('.picture svg image')")
        page.evaluate("document.querySelector('audio').load()")
        page.wait_for("document.querySelector('audio').preload = 'auto'")
        page.wait_for("Math.abs(document.querySelector('audio').duration - 1) < 0.1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
