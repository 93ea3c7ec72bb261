"""Python `mcp` 2.x as a peer: python_client.py URL KEY legacy|modern (the line protocol of line-protocol.mjs)."""

import json
import sys
from contextlib import AsyncExitStack

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def report(message: dict) -> None:
    print(json.dumps(message), flush=True)


def plain(result: object) -> object:
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return result


async def elicit(context, params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "peer", "email": "peer@example.com"})


async def sample(context, params) -> types.CreateMessageResult:
    return types.CreateMessageResult(
        role="assistant",
        content=types.TextContent(type="text", text="the peer says so"),
        model="peer",
        stop_reason="endTurn",
    )


class Peer:
    def __init__(self, era: str, tasks: anyio.abc.TaskGroup) -> None:
        self.era = era
        self.tasks = tasks
        self.updates, self.updated_uris = anyio.create_memory_object_stream[str](100)

    async def message(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            await self.updates.send(str(message.params.uri))

    async def list(self, client: Client):
        return await client.list_tools(cache_mode="refresh")

    async def resources(self, client: Client):
        return await client.list_resources(cache_mode="refresh")

    async def call(self, client: Client, name: str, arguments: str):
        return await client.call_tool(name, json.loads(arguments))

    async def read(self, client: Client, uri: str):
        return await client.read_resource(uri, cache_mode="refresh")

    async def progress(self, client: Client, name: str, arguments: str):
        seen = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        await client.call_tool(name, json.loads(arguments), progress_callback=note)
        return seen

    async def begin(self, client: Client, name: str, arguments: str):
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

        async def call() -> None:
            with self.scope:
                await client.call_tool(name, json.loads(arguments))
            self.ended.set()

        self.tasks.start_soon(call)
        return "begun"

    async def cancel(self, client: Client):
        self.scope.cancel()
        await self.ended.wait()
        return {"cancelled": self.scope.cancelled_caught}

    async def subscribe(self, client: Client, uri: str):
        if self.era == "legacy":
            await client.subscribe_resource(uri)
            self.subscribed = uri
            return "subscribed"
        acknowledged = anyio.Event()
        self.listening = anyio.CancelScope()
        self.closed = anyio.Event()

        async def listen() -> None:
            with self.listening:
                async with client.listen(resource_subscriptions=[uri]) as subscription:
                    acknowledged.set()
                    async for event in subscription:
                        await self.updates.send(str(event.uri))
            self.closed.set()

        self.tasks.start_soon(listen)
        await acknowledged.wait()
        return "subscribed"

    async def updated(self, client: Client):
        return {"uri": await self.updated_uris.receive()}

    async def unsubscribe(self, client: Client):
        if self.era == "legacy":
            return await client.unsubscribe_resource(self.subscribed)
        self.listening.cancel()
        await self.closed.wait()
        return "unsubscribed"

    async def obey(self, client: Client) -> None:
        report({"ready": True})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            command, *rest = line.strip().split(" ", 2)
            if command == "quit":
                break
            try:
                result = await getattr(self, command)(client, *rest)
            except Exception as error:
                report({"error": repr(error)})
            else:
                report({"result": plain(result)})


async def main() -> None:
    url, key, era = sys.argv[1:4]
    headers = {"Authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(30, read=300)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=timeout))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        peer = Peer(era, tasks)
        client = Client(
            streamable_http_client(url, http_client=http),
            mode="2026-07-28" if era == "modern" else "legacy",
            elicitation_callback=elicit,
            sampling_callback=sample,
            message_handler=peer.message,
        )
        await peer.obey(await stack.enter_async_context(client))
    report({"result": "bye"})


anyio.run(main)
