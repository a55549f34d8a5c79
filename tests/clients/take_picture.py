"""Take the pictures of the page, with the shipped model hearing the page's own sample.

docs/images/page.webp, the README's, is taken a moment before the sample ends.
docs/images/sizes.webp shows the page at rest after it, at all sizes and in both colour schemes.

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
GAP = 24  # px between two pictures
BEHIND = "#777788"


def main(target: str = "") -> None:
    """Write both pictures into a folder, docs/images if none is given."""
    images = Path(target) if target else ROOT / "docs" / "images"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "profile").mkdir()
        with (
            serving(DEFAULT, folder / "server.log") as server,
            chromium(folder / "profile") as page,
        ):
            page.look(width=1000, height=620)
            page.open(server.page + "/?debug=1")
            page.click("sample")
            page.wait_for(f"window.cortadoSent?.length * 0.04 > {HEARD}", seconds=60)
            shown(page).save(images / "page.webp", quality=85, method=6)
            page.wait_for("document.body.dataset.state === 'idle'")
            sheet(page).save(images / "sizes.webp", quality=75, method=6)


def sheet(page: Page) -> Image.Image:
    """Return pictures of the page beside one another: a row for each scheme, a size a column."""
    high = max(height for _, height in SIZES) + GAP
    found = Image.new("RGB", (sum(width + GAP for width, _ in SIZES) + GAP, 2 * high + GAP), BEHIND)
    for row, scheme in enumerate(("light", "dark")):
        x = GAP
        for width, height in SIZES:
            page.look(scheme, width, height, density=1)
            page.wait_for(f"innerWidth === {width}")
            page.wait_for(f"document.documentElement.dataset.theme === '{scheme}'")
            found.paste(shown(page), (x, GAP + row * high))
            x += width + GAP
    return found


def shown(page: Page) -> Image.Image:
    """Return a picture of the page."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


if __name__ == "__main__":
    main(*sys.argv[1:])
