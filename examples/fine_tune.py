"""Fine-tune the shipped model on a folder of recordings, each with a .txt beside it.

    fine_tune.py recordings runs/mine 400

takes 400 updates, and may be stopped and started again. Needs the extra `train` (in a clone: make
install EXTRAS=train). It validates on the recordings that it trains on:
docs/recipes.md has the commands that set some aside and compare error rates before and after. The
new model has no language model, so its text has more errors than the shipped model's until
`cortado export --lm` adds one.
"""

import sys
from dataclasses import replace
from pathlib import Path

import cortado
from cortado.training.data.manifest import read as read_manifest
from cortado.training.data.prepare import prepare
from cortado.training.learning.recipe import Corpus, read
from cortado.training.learning.run import train

RECIPE = Path(cortado.__file__).parent / "training" / "recipes" / "fine-tune.toml"


def main(recordings: str, run: str, updates: str = "400") -> None:
    output = Path(run)
    (prepared,), problems = prepare("folder", [Path(recordings)], output / "corpus", "english")
    for problem in problems:
        print(f"left out: {problem.where}: {problem.what}")
    recipe = read(RECIPE)
    (stage,) = recipe.stages
    checkpoint = train(
        replace(
            recipe,
            corpora=(Corpus(prepared.manifest, 1.0),),
            validation=(prepared.manifest,),
            stages=(replace(stage, steps=int(updates)),),
        ),
        output,
    )
    print(f"{checkpoint} has the new model")
    print(cortado.load(checkpoint).transcribe(Path(read_manifest(prepared.manifest)[0].audio)))


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
