"""Print the words of recordings, each with its time: transcribe_file.py talk.wav ..."""

import sys

from cortado import load


def main(*files: str) -> None:
    recogniser = load()
    for file in files:
        transcript = recogniser.transcribe(file)
        print(f"{file}: {transcript}")
        for word in transcript.words:
            print(f"{word.start:8.2f} {word.end:8.2f} {word.text}")


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
