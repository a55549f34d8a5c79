"""Print the word error rate of a manifest and its worst utterance: evaluate.py dev.jsonl

`cortado evaluate` also gives confidence intervals, delays, confusions and a page of results.
"""

import sys
from pathlib import Path

from cortado import load
from cortado.training.data.manifest import read
from cortado.training.data.recordings import samples_of
from cortado.training.scoring.edits import errors


def main(manifest: str) -> None:
    recogniser, found = load(), []
    for utterance in read(Path(manifest)):
        heard = recogniser.transcribe(samples_of(utterance)).text
        found.append((errors(utterance.text, heard), utterance.text, heard))
    wrong, words = (sum(getattr(one[0], name) for one in found) for name in ("total", "length"))
    print(f"{wrong} of {words} words are wrong: {wrong / words:.1%}")
    _, said, heard = max(found, key=lambda one: one[0].total)
    print(f"said:  {said}\nheard: {heard}")


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
