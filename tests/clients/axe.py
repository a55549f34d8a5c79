"""What axe-core finds against WCAG A and AA on a page in a real browser."""

import json
from importlib.resources import files
from typing import Any

from cortado.tests.clients.browser import Watched

SCRIPT = files("axe_core_python") / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(page: Watched) -> list[tuple[str, str]]:
    """Return each rule that the page breaks, with the first element that breaks it."""
    page.evaluate(f"(() => {{ {SCRIPT.read_text()}; }})()")
    options = json.dumps({"runOnly": RULES, "resultTypes": ["violations"]})
    found: list[dict[str, Any]] = page.evaluate(
        f"axe.run(document, {options}).then((found) => found.violations)"
    )
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
