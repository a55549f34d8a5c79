"""A page as a screen reader has it: Chromium's accessibility tree, and what is announced."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from cortado.tests.clients.chromium import Page

LANDMARKS = {"banner", "main", "region", "contentinfo", "navigation", "complementary", "form"}
CONTROLS = {"button", "checkbox", "combobox", "link", "meter", "progressindicator", "slider"}
CONTROLS |= {"textbox", "DisclosureTriangle", "DisclosureTriangleGrouped"}

# What a screen reader reads out by itself: what is added to a live region, or all of an atomic one.
LISTEN = """(() => {
    window.announced = [];
    for (const region of document.querySelectorAll("[aria-live], [role=status], [role=alert]")) {
        const note = (changes) => {
            const added = changes.flatMap((each) => [...each.addedNodes]);
            const texts = region.matches("[role]") ? [region.innerText]
                : added.map((each) => each.textContent);
            for (const text of texts) {
                if (!text.trim() || !region.checkVisibility()) continue;
                window.announced.push([region.id, text.trim().replace(/\\s+/g, " ")]);
            }
        };
        new MutationObserver(note).observe(region, {
            childList: true, subtree: true, characterData: true,
            attributes: true, attributeFilter: ["hidden"],
        });
    }
})()"""


class Node(NamedTuple):
    """One thing that a screen reader comes to."""

    role: str
    name: str
    states: dict[str, Any]


def read(page: Page) -> list[Node]:
    """Return all that can be come to, in the order of reading."""
    nodes = {one["nodeId"]: one for one in page.command("Accessibility.getFullAXTree")["nodes"]}

    def below(node: dict[str, Any]) -> Iterator[Node]:
        if not node.get("ignored"):
            name = str(node.get("name", {}).get("value", ""))
            states = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
            yield Node(node["role"]["value"], " ".join(name.split()), states)
        for child in node.get("childIds", ()):
            if child in nodes:
                yield from below(nodes[child])

    return list(below(next(one for one in nodes.values() if "parentId" not in one)))


def named(nodes: list[Node], roles: set[str]) -> list[tuple[str, str]]:
    """Return role and name of those that have one of `roles`."""
    return [(one.role, one.name) for one in nodes if one.role in roles]


def text(nodes: list[Node]) -> str:
    """Return all that is read."""
    return " ".join(" ".join(one.name for one in nodes if one.role == "StaticText").split())


def listen(page: Page) -> None:
    """Take down from now on what is announced."""
    page.evaluate(LISTEN)


def announced(page: Page, region: str) -> list[str]:
    """Return what a live region has announced since `listen`."""
    return [said for name, said in page.evaluate("window.announced") if name == region]
