"""Take the README's picture of the page, with the shipped model hearing the page's own sample.

python -m cortado.tests.clients.take_picture [PICTURE] [light|dark]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests.clients.chromium import chromium
from cortado.tests.clients.serving import ROOT, serving

PICTURE = ROOT / "docs" / "images" / "page.png"
HEARD = 10.2  # seconds of the sample at which the picture is taken


def main(picture: str = "", scheme: str = "light") -> None:
    """Write the picture of the page a moment before the sample ends."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "profile").mkdir()
        with (
            serving(DEFAULT, folder / "server.log") as server,
            chromium(folder / "profile") as page,
        ):
            page.look(scheme, width=1000, height=620)
            page.open(server.page + "/?debug=1")
            page.click("sample")
            page.wait_for(f"window.cortadoSent?.length * 0.04 > {HEARD}", seconds=60)
            target = Path(picture) if picture else PICTURE
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.screenshot())


if __name__ == "__main__":
    main(*sys.argv[1:])
