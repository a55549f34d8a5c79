"""How a run stands to its folder: it begins, goes on from a snapshot, or is complete."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cortado.model.config import SEARCHED_BY
from cortado.training.learning import snapshot
from cortado.training.learning.recipe import Recipe

State = dict[str, Any]  # of a snapshot
ORDERED_BY = ("frozen", "optimizer")  # keys that say which weights an optimiser's moments are of


def as_json(recipe: Recipe) -> Any:
    """Return a recipe as a snapshot keeps it: tables, lists, numbers and texts."""
    return json.loads(json.dumps(asdict(recipe), default=lambda path: str(path.resolve())))


def last_state(output: Path, recipe: Recipe, processes: int) -> State | None:
    """Return the state of a run's last snapshot; None where it has yet to begin.

    Raises:
        ValueError: it is a text task's, or was begun with another number of processes, another
            model, other frozen weights or another optimiser: the optimiser's moments are of weights
            by their order.
    """
    found = snapshot.snapshots(output)
    if not found:
        return None
    state = snapshot.read(found[-1])
    if "processes" not in state:
        raise ValueError(f"expected a run of a recogniser in {output}, got one of a text task")
    if state["processes"] != processes:
        raise ValueError(
            f"expected as many processes as {output} was begun with, {state['processes']}, "
            f"got {processes}"
        )
    before, now = state.get("recipe", {}), as_json(recipe)  # older snapshots lack it
    changed = [
        (f"model.{place}", was, wanted)
        for place, was, wanted in differences(before.get("model", {}), now["model"])
        if place not in SEARCHED_BY
    ]
    changed += [
        (key, before[key], now[key]) for key in ORDERED_BY if before.get(key, now[key]) != now[key]
    ]
    for key, was, wanted in changed:
        raise ValueError(
            f"expected {key} {was!r}, with which {output} was begun, got {wanted!r}; "
            "with another --output it is another run"
        )
    return state


def standing(output: Path, recipe: Recipe, state: State | None) -> str:
    """Say whether a run begins, goes on or is complete, and what has changed in its recipe."""
    total = sum(stage.steps for stage in recipe.stages)
    if state is None:
        return f"{output}: begins, {total} updates"
    done = state["step"]
    goes_on = f"goes on after {done} of {total} updates"
    said = f"{output}: {goes_on if done < total else f'is complete after {done} updates'}"
    changed = [
        f"{place} {was!r} -> {now!r}"
        for place, was, now in differences(state.get("recipe", {}), as_json(recipe))
    ]
    return said + (f"; changed since its last snapshot: {', '.join(changed)}" if changed else "")


def differences(before: Any, now: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, the old and the new value of what differs in two trees that both have.

    Of lists that are not as long as each other these are their lengths.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for key in filter(now.keys().__contains__, before):
            yield from differences(before[key], now[key], f"{place}.{key}".removeprefix("."))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{place}[{index}]")
    elif isinstance(before, list) and isinstance(now, list):
        yield f"number of {place}", len(before), len(now)
    elif before != now:
        yield place, before, now
