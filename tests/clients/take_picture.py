"""Take the pictures of the page, with the shipped model hearing the page's own sample.

docs/images/page.webp, the README's, is taken a moment before the sample ends.
docs/images/page-{rest,speech,after}.webp show the page before the sample, in it and after it, at
all sizes and in both colour schemes.

python -m cortado.tests.clients.take_picture [FOLDER]
"""

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests.clients.chromium import Page, chromium
from cortado.tests.clients.layout import SIZES
from cortado.tests.clients.serving import ROOT, serving

HEARD = 10.2  # seconds of the sample at which the README's picture is taken
SPEAKING = "document.querySelectorAll('.word').length > 7"
GAP = 24  # px between two pictures
BEHIND = "#777788"
SCHEMES = ("light", "dark")
STATES = ("rest", "speech", "after")

Key = tuple[str, str, int]  # state, scheme and width


def main(target: str = "") -> None:
    """Write all pictures into a folder, docs/images if none is given."""
    images = Path(target) if target else ROOT / "docs" / "images"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "profile").mkdir()
        with (
            serving(DEFAULT, folder / "server.log") as server,
            chromium(folder / "profile") as page,
        ):
            page.look(width=1000, height=620)
            begin(page, server.page)
            hear(page)
            shown(page).save(images / "page.webp", quality=85, method=6)
            found: dict[Key, Image.Image] = {}
            for scheme in SCHEMES:
                for width, height in SIZES:
                    page.look(scheme, width, height, density=1)
                    begin(page, server.page)
                    page.wait_for(f"document.documentElement.dataset.theme === '{scheme}'")
                    found["rest", scheme, width] = shown(page)
                    page.click("sample")
                    page.wait_for(SPEAKING)
                    found["speech", scheme, width] = shown(page)
                    page.wait_for_state("idle")
                    found["after", scheme, width] = shown(page)
            for state in STATES:
                sheet(found, state).save(images / f"page-{state}.webp", quality=60, method=6)


def begin(page: Page, address: str) -> None:
    """Open the page as it is at first."""
    page.open(address + "/?debug=1")
    page.wait_for("!document.getElementById('errors').hidden")


def hear(page: Page) -> None:
    """Let the page hear its sample, up to the instant of the picture."""
    page.click("sample")
    page.wait_for(f"window.cortadoSent?.length * 0.04 > {HEARD}", seconds=60)


def sheet(found: dict[Key, Image.Image], state: str) -> Image.Image:
    """Return pictures of one state beside one another: a row for each scheme, a size a column."""
    high = max(height for _, height in SIZES) + GAP
    wide = sum(width + GAP for width, _ in SIZES)
    made = Image.new("RGB", (wide + GAP, 2 * high + GAP), BEHIND)
    for row, scheme in enumerate(SCHEMES):
        x = GAP
        for width, _ in SIZES:
            made.paste(found[state, scheme, width], (x, GAP + row * high))
            x += width + GAP
    return made.reduce(2)


def shown(page: Page) -> Image.Image:
    """Return a picture of the page."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


if __name__ == "__main__":
    main(*sys.argv[1:])
