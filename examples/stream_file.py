"""Send a recording of any format to a server, and print its words as they are recognised.

Start a server with `make serve`, then: stream_file.py talk.wav
"""

import sys

import cortado


def main(file: str, url: str | None = None) -> None:
    for word in cortado.stream(file, url):
        print(word.text, end=" ", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
