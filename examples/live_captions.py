"""Caption the microphone in this process, without a server, until Ctrl-C.

Needs the extra `mic` (in a clone: make install EXTRAS=mic).
"""

import sounddevice

from cortado import load

RATE = 16_000  # Hz
BLOCK = 1_600  # samples: 100 ms


def main() -> None:
    live = load().stream(RATE)
    with sounddevice.InputStream(RATE, BLOCK, channels=1, dtype="float32") as microphone:
        print("Speak; Ctrl-C ends.")
        try:
            while True:
                samples, _ = microphone.read(BLOCK)
                for character in live.push(samples[:, 0]):
                    print(character.text, end="", flush=True)
        except KeyboardInterrupt:
            print("".join(character.text for character in live.end()))


if __name__ == "__main__":
    main()
