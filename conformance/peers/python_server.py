"""Python `mcp` 2.x as a server of both eras: python_server.py PORT"""

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("peer-python")


@server.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return f"{a} + {b} = {a + b}"


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and reports its progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return f"counted to {to}"


server.run("streamable-http", port=int(sys.argv[1]))
