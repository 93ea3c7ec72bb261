"""Python `mcp` 2.x as a peer: python_client.py URL KEY legacy|modern (the line protocol of line-protocol.mjs)."""

import json
import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def report(message: dict) -> None:
    print(json.dumps(message), flush=True)


async def obey(client: Client) -> None:
    report({"ready": True})
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        command, _, rest = line.strip().partition(" ")
        try:
            if command == "list":
                result = await client.list_tools(cache_mode="refresh")
            elif command == "call":
                name, _, arguments = rest.partition(" ")
                result = await client.call_tool(name, json.loads(arguments))
            else:
                break
        except Exception as error:
            report({"error": repr(error)})
        else:
            report({"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)})


async def main() -> None:
    url, key, era = sys.argv[1:4]
    headers = {"Authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(30, read=300)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(url, http_client=http)
        mode = "2026-07-28" if era == "modern" else "legacy"
        async with Client(transport, mode=mode) as client:
            await obey(client)
    report({"result": "bye"})


anyio.run(main)
