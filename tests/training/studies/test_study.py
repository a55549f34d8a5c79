"""A comparison of decoders: its runs, their records, its table, and what the table claims."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from cortado.model import checkpoint
from cortado.model.config import DecoderConfig
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.tiny import (
    MODEL,
    RECIPES,
    TEXTS,
    corpus,
    fresh,
    takes_steps_and_decodes,
)
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.data.manifest import Segment
from cortado.training.learning import recipe as recipes
from cortado.training.learning.start import begin_from
from cortado.training.scoring.delay import Delay
from cortado.training.scoring.markdown import outside
from cortado.training.studies import page, plan, record
from cortado.training.studies.claims import claims
from cortado.training.studies.plan import Plan, Row, Study, plans, shared
from cortado.training.studies.record import CorpusShare, Count, Run, Scored, Start
from cortado.training.studies.run import (
    _alone,
    _drawn,
    carry_out,
    draw_all,
    evaluated,
    run,
    scored,
)

COMPARE = RECIPES / "compare"
WAYS = ["online", "uncapped", "hard-beam", "expected", "beam"]  # of decoding, of a monotonic row
CAPPED = "greedy, hard stops with at most two symbols a frame"
PAGE = "# Ours\n\n<!-- tiny: begin -->\n<!-- tiny: end -->\n\nmore\n"
PARTS = 'start_parts = ["features", "encoder", "ctc"]'
RECIPE = """
name = "base"
validation = []
corpora = [{ manifest = "train.jsonl", weight = 1 }]
batch_seconds = 6
%s
stages = [{ name = "all", steps = 2, attention = 1, stop = 0.5, quantity = 0.1, augmentation = \
{ tempo = 0, warp = 0, gain = 0, noise = 0, babble = 0, time_masks = 0, band_masks = 0 } }]
model = { encoder = { channels = 2, width = 8, layers = 1 }%s }
"""
STUDY = """
name = "tiny"
recipe = "base.toml"
start = "start.toml"
processes = 1
results = "results"
page = "page.md"
offline = "soft"
online = "mocha"
pictures = ["train-0"]
sets = [{ manifest = "train.jsonl", every = 2 }]
rows = [
    { name = "soft", title = "soft attention", decoder = { width = 8, embedding = 4, attention = \
{ width = 8, kind = "soft" } } },
    { name = "mocha", title = "MoChA", decoder = { width = 8, embedding = 4, attention = \
{ width = 8 } }, seeds = [1, 2] },
    { name = "ctc", title = "CTC", decoder = { kind = "ctc" } },
]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny study, and the checkpoint with which its runs begin."""
    folder = tmp_path_factory.mktemp("study")
    corpus(folder)
    (folder / "base.toml").write_text(RECIPE % (PARTS, ""))
    (folder / "start.toml").write_text(RECIPE % ("", ', decoder = { kind = "ctc" }'))
    (folder / "study.toml").write_text(STUDY)
    (folder / "page.md").write_text(PAGE)
    torch.manual_seed(3)
    model = Recognizer(replace(MODEL, decoder=DecoderConfig(kind="ctc")))
    checkpoint.save(model, folder / "start", {"recipe": "alone", "steps": 7})
    return folder


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return plan.read(folder / "study.toml")


@pytest.fixture(scope="module")
def done(study: Study, folder: Path) -> dict[str, Run]:
    """All runs of the tiny study but that of CTC."""
    for each in plans(study, ["soft", "mocha"]):
        carry_out(each, folder / "runs", folder / "start")
    return {each.name: record.read(each.result) for each in plans(study, ["soft", "mocha"])}


def test_a_run_keeps_how_it_came_about_and_what_it_is_worth(
    done: dict[str, Run], study: Study, folder: Path
) -> None:
    found = done["mocha-2"]
    assert (found.row, found.seed, found.updates, found.processes) == ("mocha", 2, 2, 1)
    assert found.start == replace(found.start, recipe="alone", updates=7)
    assert found.training_seconds > 0
    trained = checkpoint.load(folder / "runs" / "mocha-2" / "checkpoint")
    assert found.parameters == sum(parameter.numel() for parameter in trained.parameters())
    assert [one.utterances for one in found.corpora] == [len(TEXTS)]
    words = sum(len(text.split()) for text in TEXTS[::2])
    assert [one.counts["words"].length for one in found.scores] == [words] * len(WAYS)
    assert found.shared == shared(study)


def test_what_streams_is_scored_by_hard_stops_and_as_in_training_and_soft_attention_as_there(
    done: dict[str, Run],
) -> None:
    assert [one.mode for one in done["mocha-1"].scores] == WAYS
    assert [one.mode for one in done["soft-1"].scores] == ["expected", "beam"]


def test_another_seed_or_decoder_is_another_configuration_of_the_same_study(
    done: dict[str, Run], study: Study
) -> None:
    wanted = {each.name: each.configuration for each in plans(study, ["soft", "mocha"])}
    assert {name: one.configuration for name, one in done.items()} == wanted
    assert len({one.configuration for one in done.values()}) == len(done)
    assert len({one.shared for one in done.values()}) == 1


def test_the_alignments_are_drawn_once_a_row(done: dict[str, Run], study: Study) -> None:
    pictures = sorted((study.results / "alignments").glob("*.svg"))
    assert [path.name for path in pictures] == ["mocha-train-0.svg", "soft-train-0.svg"]
    for path in pictures:
        assert path.stat().st_size < 100_000
        assert TEXTS[0] in "".join(ElementTree.parse(path).getroot().itertext())


def test_a_run_stopped_while_it_draws_is_not_done(
    done: dict[str, Run], study: Study, folder: Path, tmp_path: Path
) -> None:
    stopped = replace(study, pictures=("nobody",), results=tmp_path)
    [each] = plans(stopped, ["soft"])
    with pytest.raises(ValueError, match="expected an utterance 'nobody'"):
        carry_out(each, folder / "runs", folder / "start")
    assert not each.result.exists()


def test_a_picture_may_be_of_an_utterance_whose_id_has_a_slash(
    done: dict[str, Run], study: Study, folder: Path, tmp_path: Path
) -> None:
    [heard] = [part.utterances() for part in study.sets]
    renamed = NamedSet("a", (replace(heard.utterances[0], id="said/here.wav"),))
    changed = replace(study, pictures=("said/here.wav",), results=tmp_path)
    each = next(plans(changed, ["soft"]))
    draw_all(checkpoint.load(folder / "runs" / "soft-1" / "checkpoint"), each, [renamed])
    assert (tmp_path / "alignments" / "soft-said-here.wav.svg").exists()


@pytest.mark.slow
def test_a_start_that_is_a_recipe_is_trained_first(
    study: Study, folder: Path, tmp_path: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    alone = replace(study, results=tmp_path)
    made = run(alone, folder / "own", ["ctc"], progress=lambda *what: told.append(what))
    assert made == [tmp_path / "ctc-1.json"]
    assert told == [("ctc-1", 0, 1), ("tiny", 1, 1)]
    found = record.read(made[0])
    assert (found.start.recipe, found.start.updates) == ("base", 2)
    assert [one.mode for one in found.scores] == ["online"]


def test_what_is_stored_is_not_run_again(done: dict[str, Run], study: Study, folder: Path) -> None:
    assert run(study, folder / "runs", ["soft", "mocha"]) == []


def test_a_run_that_would_not_share_what_the_others_do_is_refused(
    done: dict[str, Run], study: Study, folder: Path, tmp_path: Path
) -> None:
    torch.manual_seed(4)
    checkpoint.save(Recognizer(replace(MODEL, decoder=DecoderConfig(kind="ctc"))), tmp_path)
    with pytest.raises(ValueError, match=r"expected to start from Start\(recipe='alone', "):
        run(study, folder / "runs", start=tmp_path)
    with pytest.raises(ValueError, match=r"soft-1.json: expected shared .* are another study"):
        run(replace(study, processes=2), folder / "runs")
    first, *others = study.rows
    other = replace(first, decoder=replace(first.decoder, width=9))
    with pytest.raises(ValueError, match=r"soft-1.json: expected configuration "):
        run(replace(study, rows=(other, *others)), folder / "runs")


def test_the_table_takes_the_place_of_the_one_on_the_page(
    done: dict[str, Run], study: Study
) -> None:
    for _ in range(2):
        page.write(study)
    text = study.page.read_text()
    assert text == PAGE.replace("begin -->\n", f"begin -->\n{page.generate(study)}")
    assert "- Not run yet: ctc-1." in text
    assert "`alone` after 7 updates" in text
    assert "noise, 1 in the papers: 0 in the stage `all`." in text
    assert "**What does the bound of streams, two symbols a frame, change?**" in text
    header = next(line for line in text.splitlines() if line.startswith("|  | seeds"))
    assert [name for name in header.split(" | ") if name.startswith("WER")] == [
        "WER hard, online",
        "WER hard, algorithm 1",
        "WER hard, beam",
        "WER expected",
        "WER expected, beam",
    ]


def test_a_page_without_a_place_for_the_table_is_refused(study: Study, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Ours\n")
    with pytest.raises(ValueError, match=r"page.md: expected <!-- tiny: begin --> and then"):
        page.write(replace(study, page=tmp_path / "page.md"))
    with pytest.raises(ValueError, match=r"expected a page in a folder that exists, got .*gone"):
        page.write(replace(study, page=tmp_path / "gone" / "page.md"))


def test_a_page_that_is_not_there_is_begun(study: Study, tmp_path: Path) -> None:
    empty = replace(study, page=tmp_path / "page.md", results=tmp_path)
    for _ in range(2):
        text = page.write(empty).read_text()
        assert text == "<!-- tiny: begin -->\n\nNo run is stored yet.\n\n<!-- tiny: end -->\n"


def made(
    row: str, seed: int, online: int | None, expected: int | None, **others: int | None
) -> Run:
    """Return a run with so many errors in a thousand words."""
    counts = {"online": online, "expected": expected}
    counts |= {mode.replace("_", "-"): errors for mode, errors in others.items()}
    scores = [
        Scored("a/dev", mode, 9, 0.5, Count(errors, 1000), Count(errors, 4000), delay)
        for mode, errors in counts.items()
        if errors is not None
        for delay in [Delay(100.0, 200.0 + seed, 80.0, 5) if mode == "online" else None]
    ]
    heard = (CorpusShare("a/train", 1.0, 9, 0.5),)
    start = Start("alone", 7, "abc")
    configuration = f"{row}-{seed}"
    budget = (1234, 450, 2, 40.0, 10.0 * seed)
    return Run(row, seed, "same", configuration, start, *budget, heard, tuple(scores))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = made("mocha", 1, 150, 140)
    record.write(one, tmp_path / "folder" / "one.json")
    assert record.read(tmp_path / "folder" / "one.json") == one


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "one.json: expected JSON"), ('{"seeds": 1}', "one.json: expected keys among row, ")],
)
def test_what_is_no_record_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        record.read(tmp_path / "one.json")


def told(study: Study, runs: list[Run]) -> str:
    by_row = {row.name: [one for one in runs if one.row == row.name] for row in study.rows}
    return "\n".join(claims(study, by_row, ["a/dev"]))


@pytest.mark.parametrize(
    ("online", "verdict"),
    [
        ([150, 154], "they are not told apart. 15.2 % against 15.1 %, best 15.0 % against 15.0 %"),
        ([170, 190], "they are not told apart. 18.0 % against 15.1 %"),  # 2.9 standard errors
        ([170, 190, 170, 190], "they are not told apart."),  # with the fewer seeds' freedom
        ([250, 254], "it is worse. 25.2 % against 15.1 %"),
        ([50, 54], "it is better. 5.2 % against 15.1 %"),
        ([150], "not known: 1 and 2 runs, two of each are the least."),
    ],
)
def test_the_online_row_is_held_against_the_offline_one_by_its_standard_error(
    study: Study, online: list[int], verdict: str
) -> None:
    runs = [made("soft", seed, None, errors) for seed, errors in enumerate([150, 152])]
    runs += [made("mocha", seed, errors, 150) for seed, errors in enumerate(online)]
    assert f"- a/dev, {CAPPED}: {verdict}" in told(study, runs)


def test_the_standard_error_is_that_of_a_difference_of_means(study: Study) -> None:
    runs = [made("soft", seed, None, errors) for seed, errors in enumerate([100, 120])]
    runs += [made("mocha", seed, errors, None) for seed, errors in enumerate([110, 130])]
    # both deviations are sqrt(2) points, so the error is sqrt(2 / 2 + 2 / 2)
    assert "is +1.0 points, its standard error 1.4 (" in told(study, runs)


@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(150, "yes. Hard less expected, in points: MoChA +1.0."), (151, "no (MoChA). Hard less")],
)
def test_hard_decoding_may_lose_a_point(study: Study, hard: int, verdict: str) -> None:
    assert f"- a/dev, {CAPPED}: {verdict}" in told(study, [made("mocha", 1, hard, 140)])


def test_the_papers_ways_of_decoding_take_the_place_of_the_stream_s(study: Study) -> None:
    runs = [
        made("soft", seed, None, 150 + seed, beam=100 + seed)  # with beams all are better
        for seed in (0, 2)
    ]
    runs += [
        made("mocha", seed, 500, 140, uncapped=150 + seed, hard_beam=200 + seed, beam=120)
        for seed in (0, 2)
    ]
    found = told(study, runs)
    assert "- a/dev, greedy: they are not told apart. 15.1 % against 15.1 %" in found
    assert "- a/dev, beam: it is worse. 20.1 % against 10.1 %" in found
    assert "- a/dev, greedy: no (MoChA). Hard less expected, in points: MoChA +1.1." in found
    assert "- a/dev, beam: no (MoChA). Hard less expected, in points: MoChA +8.1." in found
    assert "with the bound less without it, in points: MoChA +34.9." in found


def other(study: Study, folder: Path, *changes: tuple[str, str]) -> Study:
    """Return a study of another recipe, without stored runs."""
    text = RECIPE % (PARTS, "")
    for old, new in changes:
        text = text.replace(old, new)
    (folder / "base.toml").write_text(text)
    return replace(study, recipe=folder / "base.toml", results=folder)


def generated(study: Study, *runs: Run) -> str:
    """Store runs; return the study's part of the page."""
    configurations = {each.name: each.configuration for each in plans(study)}
    for one in runs:
        name = f"{one.row}-{one.seed}"
        ours = replace(one, shared=shared(study), configuration=configurations[name])
        record.write(ours, study.results / f"{name}.json")
    return page.generate(study)


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        ("noise = 0", "had no pre-sigmoid noise"),
        ("noise = 0.5", "had less than the papers have of the pre-sigmoid noise"),
        ("noise = 1", None),
    ],
)
def test_without_the_papers_noise_the_page_says_that_it_does_not_answer_for_them(
    study: Study, tmp_path: Path, noise: str, said: str | None
) -> None:
    changed = other(study, tmp_path, ("attention = 1", f"attention = 1, {noise}"))
    found = told(changed, [made("mocha", 1, 150, 140)])
    assert said in found if said else "pre-sigmoid" not in found


def test_the_page_says_of_training_what_the_recipe_does(study: Study, tmp_path: Path) -> None:
    run = made("mocha", 1, 150, 140)
    plain = "attention = 1, ctc = 0, noise = 0.5"
    changed = other(
        study,
        tmp_path,
        ("attention = 1, stop = 0.5, quantity = 0.1", plain),
        ("batch_seconds = 6", "batch_seconds = 6\nbatch_utterances = 4\naverage = 0"),
        (PARTS, 'start_parts = ["features", "encoder"]'),
    )
    found = generated(changed, run)
    assert "audio a run, at most 4 utterances each, for every row. The last weights are" in found
    assert "with the same encoder, `alone`" in found
    assert "and with a new CTC head and decoder." in found
    assert "in all rows: cross-entropy of the symbols. The row of CTC" in found
    assert "noise, 1 in the papers: 0.5 in the stage `all`." in found


def test_what_writes_phones_is_scored_by_those_that_timit_is_scored_by(study: Study) -> None:
    (part,) = study.sets
    labels = ("ax-h", "q", "h#")
    said = tuple(Segment(label, 0.1 * k, 0.1 * k + 0.1) for k, label in enumerate(labels))
    utterance = replace(part.utterances().utterances[0], phones=said)
    model = fresh(replace(MODEL, vocabulary=Vocabulary(phones=labels))).eval()
    found = [scored(one) for one in evaluated(model, "a", [NamedSet("a", (utterance,))])]
    assert [one.mode for one in found] == WAYS
    for one in found:
        assert (one.words, one.characters) == (None, None)
        assert one.main == one.phones == Count(one.main.errors, 2)  # ah sil


def test_a_study_of_phones_speaks_of_phones(study: Study, tmp_path: Path) -> None:
    phones = 'model = { vocabulary = { phones = ["ah", "sil"] },'
    changed = other(study, tmp_path, ("model = {", phones))
    assert shared(changed) != shared(replace(changed, recipe=study.recipe))
    runs = []
    for seed in (1, 2):
        run = made("mocha", seed, 100 + 20 * seed, 90)
        scores = [replace(s, words=None, characters=None, phones=s.words) for s in run.scores]
        runs.append(replace(run, scores=tuple(scores)))
    found = generated(changed, *runs)
    assert "WER" not in found
    assert "CER" not in found
    assert "- Rates are in % of TIMIT's 61 phones folded to 39, " in found
    assert "**a/dev**: 9 utterances, 0.50 h, 1,000 phones" in found
    assert "|  | seeds | PER hard, online | PER expected | emission" in found
    assert "| MoChA | 2 | 13.0 ± 1.4 | 9.0 ± 0.0 | 100 / 202 |" in found
    assert "at most one point against expected decoding?** PER:" in found


def test_a_picture_of_phones_has_the_utterance_s_phones(study: Study, tmp_path: Path) -> None:
    phones = 'model = { vocabulary = { phones = ["ah", "sil"] },'
    changed = other(study, tmp_path, ("model = {", phones))
    (part,) = study.sets
    utterances = part.utterances().utterances
    heard = replace(utterances[0], phones=(Segment("sil", 0, 0.1), Segment("ah", 0.1, 0.2)))
    assert [one.text for one in _drawn(changed, [NamedSet("a", (heard,))])] == ["sil ah"]


def test_the_table_has_means_and_deviations_over_seeds(study: Study, tmp_path: Path) -> None:
    runs = made("soft", 1, None, 120), made("mocha", 1, 100, 90), made("mocha", 2, 120, 90)
    lines = generated(replace(study, results=tmp_path), *runs).splitlines()
    assert "| soft attention | 1 |  | 12.0 |  | 3.0 |  |" in lines  # only the ways that were scored
    assert "| MoChA | 2 | 11.0 ± 1.4 | 9.0 ± 0.0 | 2.8 ± 0.4 | 2.2 ± 0.0 | 100 / 202 |" in lines
    assert "| MoChA | 1,234 | 15 |" in lines


# What is shipped.


STUDIES = {name: plan.read(COMPARE / f"{name}.toml") for name in ("study", "papers")}


@pytest.fixture(params=[*STUDIES.values()], ids=[*STUDIES])
def shipped(request: pytest.FixtureRequest) -> Study:
    found: Study = request.param
    return found


def test_the_studies_have_the_rows_of_the_papers() -> None:
    seeds = {
        name: {row.name: len(row.seeds) for row in study.rows} for name, study in STUDIES.items()
    }
    widths = {f"mocha-{w}": 3 if w == 2 else 1 for w in (1, 2, 4, 8)}
    assert seeds["study"] == {"soft": 3, "monotonic": 1, **widths, "matcha": 1, "ctc": 1}
    assert seeds["papers"] == {"soft": 3, "monotonic": 3, "mocha-2": 3, "mocha-4": 3}
    for study in STUDIES.values():
        for row in study.rows:
            if row.name.startswith("mocha"):
                assert row.name == f"mocha-{row.decoder.attention.chunk}"
            assert row.decoder.beam == 8
        assert (study.offline, study.online) == ("soft", "mocha-2")


def test_the_second_study_differs_from_the_first_in_the_papers_noise_alone() -> None:
    first, second = (recipes.read(study.recipe) for study in STUDIES.values())
    assert [stage.noise for stage in first.stages] == [0.0, 0.0]
    noisy = tuple(replace(stage, noise=1.0) for stage in first.stages)
    same = replace(first, name=second.name, description=second.description, stages=noisy)
    assert second == same


@pytest.mark.parametrize("row", STUDIES["study"].rows, ids=lambda row: row.name)
def test_every_row_of_the_first_study_begins_learns_and_decodes(row: Row) -> None:
    study = STUDIES["study"]
    wanted = Plan(study, row, row.seeds[0]).recipe(study.start)
    model = Recognizer(wanted.model)
    begin_from(model, study.start, wanted.start_parts)
    takes_steps_and_decodes(model, wanted.stages[:1])


def test_the_stored_runs_are_those_of_the_study_in_the_tree(shipped: Study) -> None:
    known = {each.result.name: each for each in plans(shipped)}
    found = {path.name: record.read(path) for path in shipped.results.glob("*.json")}
    wanted = {name: known[name].configuration for name in found}
    assert {name: one.configuration for name, one in found.items()} == wanted


def test_the_page_is_what_the_command_makes_of_the_stored_runs(shipped: Study) -> None:
    before, after = outside(shipped.page, shipped.name)
    assert shipped.page.read_text(encoding="utf-8") == before + page.generate(shipped) + after


def test_another_budget_is_another_study(study: Study, folder: Path, tmp_path: Path) -> None:
    longer = tmp_path / "base.toml"
    longer.write_text((RECIPE % (PARTS, "")).replace("steps = 2", "steps = 3"))
    assert shared(replace(study, recipe=longer)) != shared(study)
    # where the folder lies, how it is called and what is the default anyway make no difference
    same = tmp_path / folder.name
    same.mkdir()
    (same / "base.toml").write_text((RECIPE % (PARTS, "")).replace('"base"', '"other"\nl2 = 0'))
    moved = [replace(one, manifest=same / "train.jsonl") for one in study.sets]
    assert shared(replace(study, recipe=same / "base.toml", sets=tuple(moved))) == shared(study)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offline": "hard"}, "expected a row among soft, mocha, ctc, got 'hard'"),
        ({"rows": 2}, "expected rows of different names, got soft, soft"),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    study: Study, change: dict[str, Any], message: str
) -> None:
    if isinstance(change.get("rows"), int):
        change = {"rows": study.rows[:1] * change["rows"]}
    with pytest.raises(ValueError, match=message):
        replace(study, **change)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("every = 2", "every = 0", r"sets\[0\]: every: expected greater than 0, got 0"),
        ("processes = 1", "processes = 0", r"processes: expected greater than 0, got 0"),
        ("seeds = [1, 2]", "seeds = []", r"rows\[1\]: seeds: expected at least one, got none"),
        (
            '[{ manifest = "train.jsonl", every = 2 }]',
            "[]",
            r"sets: expected at least one, got none",
        ),
        (
            'name = "soft"',
            'name = "../soft"',
            r"name: expected a name of letters.* got '\.\./soft'",
        ),
    ],
)
def test_what_is_wrong_with_a_study_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        plan.read(path)


def test_only_what_is_drawn_has_to_be_spelled(folder: Path, study: Study, tmp_path: Path) -> None:
    (part,) = study.sets
    odd = tmp_path / "train.jsonl"
    odd.write_text(part.manifest.read_text().replace(f'"{TEXTS[0]}"', '"24"'))
    other = replace(study, sets=(replace(part, manifest=odd),), results=tmp_path / "results")
    assert len(other.sets[0].utterances().utterances) == len(part.utterances().utterances)
    with pytest.raises(ValueError, match=r"expected a text to draw .* got '24'"):
        run(other, folder / "other", ["ctc"])


def test_a_row_that_is_not_there_is_named(study: Study, folder: Path) -> None:
    with pytest.raises(ValueError, match="expected a row among soft, mocha, ctc, got 'hard'"):
        run(study, folder / "runs", ["hard"])


def test_a_run_that_dies_in_its_process_is_told() -> None:
    with pytest.raises(OSError, match="carries out a run, got the end of its process, with code 3"):
        _alone(os._exit, 3)
