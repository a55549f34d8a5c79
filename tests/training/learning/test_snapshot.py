"""Snapshots are whole or not there."""

from pathlib import Path

import pytest
import torch
from torch import nn

from cortado.model.whole_file import write_whole
from cortado.training.learning import snapshot as runstate
from cortado.training.learning.snapshot import restore, save, snapshots


def trained(seed: int, steps: int) -> tuple[nn.Module, torch.optim.Adam]:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(module.parameters(), 0.1)
    advance(module, optimizer, steps)
    return module, optimizer


Named = tuple[dict[str, nn.Module], dict[str, torch.optim.Optimizer]]


def named(module: nn.Module, optimizer: torch.optim.Adam) -> Named:
    """Return both by their names in snapshots."""
    return {"model": module}, {"optimizer": optimizer}


def advance(module: nn.Module, optimizer: torch.optim.Adam, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        module(x).pow(4).sum().backward()
        optimizer.step()


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_what_was_saved_comes_back_with_its_moments(tmp_path: Path) -> None:
    module, optimizer = trained(0, 5)
    save(tmp_path, 5, *named(module, optimizer), {"pool": 2})
    other, its_optimizer = trained(1, 0)
    state = restore(tmp_path / "snapshot-00000005", *named(other, its_optimizer))
    assert state == {"step": 5, "pool": 2}
    assert same(module, other)
    advance(module, optimizer, 3)
    advance(other, its_optimizer, 3)
    assert same(module, other)


def test_a_damaged_snapshot_is_named_with_what_helps(tmp_path: Path) -> None:
    module, optimizer = trained(0, 1)
    save(tmp_path, 5, *named(module, optimizer), {})
    [found] = snapshots(tmp_path)
    whole = (found / "tensors.safetensors").read_bytes()
    (found / "tensors.safetensors").write_bytes(whole[:100])
    with pytest.raises(
        ValueError, match=r"expected a whole .*tensors\.safetensors, got .*; without"
    ):
        restore(found, *named(module, optimizer))


def test_a_snapshot_of_another_model_is_named_with_what_differs(tmp_path: Path) -> None:
    save(tmp_path, 5, *named(*trained(0, 1)), {})
    [found] = snapshots(tmp_path)
    wider = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(wider.parameters())
    with pytest.raises(ValueError, match=rf"expected {found} to be of this model, got .*0\.weight"):
        restore(found, *named(wider, optimizer))


def test_the_last_two_are_kept_in_the_order_of_their_steps(tmp_path: Path) -> None:
    module, optimizer = trained(0, 1)
    for step in (5, 10, 100):
        save(tmp_path, step, *named(module, optimizer), {})
    assert [path.name for path in snapshots(tmp_path)] == ["snapshot-00000010", "snapshot-00000100"]


def test_a_snapshot_of_the_same_step_takes_its_place(tmp_path: Path) -> None:
    module, optimizer = trained(0, 1)
    for extra in ({"pool": 1}, {"pool": 2}):
        save(tmp_path, 5, *named(module, optimizer), extra)
    (found,) = snapshots(tmp_path)
    assert restore(found, *named(module, optimizer))["pool"] == 2


@pytest.mark.parametrize("within", [runstate.TENSORS, runstate.STATE])
def test_a_kill_while_saving_leaves_the_snapshot_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str
) -> None:
    module, optimizer = trained(0, 3)
    save(tmp_path, 3, *named(module, optimizer), {})

    def killed(path: Path, content: str | bytes) -> None:
        write_whole(path, content[:3] if path.name == within else content)
        if path.name == within:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runstate, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 6, *named(module, optimizer), {})
    assert (tmp_path / "snapshot.partial").exists()
    assert [path.name for path in snapshots(tmp_path)] == ["snapshot-00000003"]
    assert restore(snapshots(tmp_path)[-1], *named(module, optimizer))["step"] == 3
    save(tmp_path, 9, *named(module, optimizer), {})  # what is left over is no hindrance
    assert [path.name for path in snapshots(tmp_path)] == ["snapshot-00000003", "snapshot-00000009"]
    assert not (tmp_path / "snapshot.partial").exists()


def test_a_folder_without_a_run_has_no_snapshots(tmp_path: Path) -> None:
    assert snapshots(tmp_path / "nowhere") == []
