"""Caption the microphone in this process, without a server, until Ctrl-C.

Needs the extra `mic` (in a clone: make install EXTRAS=mic).
"""

import cortado


def main() -> None:
    microphone = cortado.Microphone()
    live = cortado.load().stream(microphone.sample_rate)
    print("Speak; Ctrl-C ends.")
    try:
        for block in microphone:
            for character in live.push(block):
                print(character.text, end="", flush=True)
    except KeyboardInterrupt:
        pass
    print("".join(character.text for character in live.end()))


if __name__ == "__main__":
    main()
