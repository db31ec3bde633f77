"""A service that answers each line in upper case, and may tell its makers how it is used.

    python service.py settings.toml

`record` takes microseconds and never waits for a disk or a network, so coroutines call it as they
are. The setting is read once; `telemetry = false`, or none, keeps everything silent.
"""

import asyncio
import sys
import tomllib
from pathlib import Path

from client_sdk import Client


async def serve(settings: dict[str, object]) -> None:
    telemetry = Client(
        Path(__file__).with_name("metrics.toml"),
        endpoint="https://telemetry.example.org",
        write_key="printed by `sottovoce up`",
        enabled=settings.get("telemetry") is True,
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            telemetry.record("line_bytes", len(line))
            telemetry.record("blank_lines", not line.strip())
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(serve(tomllib.loads(Path(sys.argv[1]).read_text())))
    except KeyboardInterrupt:
        pass
