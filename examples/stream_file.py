"""Stream a wav file to a server at the pace of speech, and print characters as they come.

Start a server with `make serve`, then: stream_file.py talk.wav
"""

import asyncio
import sys
import wave

from cortado import connect

BLOCK_SECONDS = 0.1


async def main(file: str, url: str = "ws://127.0.0.1:8000/v1/stream") -> None:
    with wave.open(file) as sound:
        if (sound.getnchannels(), sound.getsampwidth()) != (1, 2):
            raise SystemExit(f"expected one channel of 16 bits, got {sound.getparams()}")
        rate = sound.getframerate()
        async with connect(url, sample_rate=rate) as stream:

            async def speak() -> None:
                while block := sound.readframes(round(rate * BLOCK_SECONDS)):
                    await stream.send(block)
                    await asyncio.sleep(BLOCK_SECONDS)
                await stream.end()

            speaking = asyncio.create_task(speak())
            async for chars in stream:
                print(chars.text, end="", flush=True)
            await speaking
            print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
