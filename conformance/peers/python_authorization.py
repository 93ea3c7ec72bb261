"""Python `mcp` 2.x as a server that is its own authorization server: python_authorization.py PORT STATE LOG

The endpoints are the SDK's; what it leaves to its users is here: clients, codes and tokens in the SQLite file STATE, so
that they outlive a restart, refresh tokens that rotate, and a page that asks a person. Whatever a person or a client makes
it do is a line in LOG: see `src/grants/log.rs`.
"""

import hashlib
import json
import secrets
import sqlite3
import sys
import time
from typing import Any, TypeVar

import uvicorn
from mcp.server.auth import provider
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AuthorizationParams, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

PORT, STATE, LOG = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ISSUER = f"http://127.0.0.1:{PORT}"
RESOURCE = f"{ISSUER}/mcp"
SCOPES = ["tools"]
# Seconds. The gateway renews a token after half of what it is told.
LIFETIME = 2
# How much longer it is taken: a busy machine may be late.
LEEWAY = 15

PAGE = """<!doctype html><title>Sign in</title><h1>Sign in</h1>
<form method="post"><input name="login" required><button type="submit">Allow</button></form>"""


class AuthorizationCode(provider.AuthorizationCode):
    pass


class RefreshToken(provider.RefreshToken):
    family: str
    spent: bool = False


class AccessToken(provider.AccessToken):
    family: str


class Asked(BaseModel):
    """An authorization request that waits for its person."""

    client_id: str
    params: AuthorizationParams


Model = TypeVar("Model", bound=BaseModel)


class Kept:
    """Models by their kind and id."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS models (kind TEXT, id TEXT, model TEXT, PRIMARY KEY (kind, id))"
        )

    def put(self, id: str, model: BaseModel) -> None:
        row = (type(model).__name__, id, model.model_dump_json())
        self.database.execute("REPLACE INTO models VALUES (?, ?, ?)", row)

    def get(self, kind: type[Model], id: str) -> Model | None:
        found = self.database.execute(
            "SELECT model FROM models WHERE kind = ? AND id = ?", (kind.__name__, id)
        ).fetchone()
        return kind.model_validate_json(found[0]) if found else None

    def remove(self, kind: type[BaseModel], id: str) -> None:
        self.database.execute("DELETE FROM models WHERE kind = ? AND id = ?", (kind.__name__, id))

    def remove_family(self, family: str) -> None:
        self.database.execute("DELETE FROM models WHERE model ->> 'family' = ?", (family,))

    def live(self) -> int:
        """How many tokens are good for anything."""
        tokens = "SELECT count(*) FROM models WHERE model ->> 'family' NOTNULL AND NOT coalesce(model ->> 'spent', 0)"
        return self.database.execute(tokens).fetchone()[0]


def write(**line: Any) -> None:
    with open(LOG, "a") as log:
        log.write(json.dumps(line) + "\n")


def mark(token: str) -> str:
    """Tells one token from another, and gives none away."""
    return hashlib.sha256(token.encode()).hexdigest()[:12]


class Provider(provider.OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.kept.get(OAuthClientInformationFull, client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.kept.put(client_info.client_id, client_info)
        write(event="registered")

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id
        request = secrets.token_urlsafe(16)
        self.kept.put(request, Asked(client_id=client.client_id, params=params))
        return construct_redirect_uri(f"{ISSUER}/consent", request=request)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.kept.get(AuthorizationCode, authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.kept.remove(AuthorizationCode, authorization_code.code)
        tokens = self.issue(authorization_code, family=secrets.token_urlsafe(8))
        write(event="token", grant="authorization_code", issued=mark(tokens.refresh_token or ""))
        return tokens

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        found = self.kept.get(RefreshToken, refresh_token)
        if found and not found.spent:
            return found
        if found:
            # Whoever presents a spent one may have stolen it (RFC 9700 section 4.14.2).
            self.kept.remove_family(found.family)
        write(event="token", grant="refresh_token", presented=mark(refresh_token), error="invalid_grant")
        return None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.kept.put(refresh_token.token, refresh_token.model_copy(update={"spent": True}))
        tokens = self.issue(refresh_token, family=refresh_token.family)
        presented, issued = mark(refresh_token.token), mark(tokens.refresh_token or "")
        write(event="token", grant="refresh_token", presented=presented, issued=issued)
        return tokens

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.kept.get(AccessToken, token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.kept.remove_family(token.family)
        write(event="revoked", status=200, live=self.kept.live())

    def issue(self, by: AuthorizationCode | RefreshToken, family: str) -> OAuthToken:
        common = {"client_id": by.client_id, "scopes": by.scopes, "resource": by.resource, "family": family}
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        until = int(time.time()) + LIFETIME + LEEWAY
        self.kept.put(access, AccessToken(token=access, expires_at=until, **common))
        self.kept.put(refresh, RefreshToken(token=refresh, **common))
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=LIFETIME, scope=" ".join(by.scopes)
        )


kept = Kept(STATE)
server = MCPServer(
    "peer-python",
    auth_server_provider=Provider(kept),
    auth=AuthSettings(
        issuer_url=ISSUER,
        resource_server_url=RESOURCE,
        validate_token_resource=True,
        required_scopes=SCOPES,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.custom_route("/consent", methods=["GET", "POST"])
async def consent(request: Request) -> Response:
    """The page that asks, and what follows from its button."""
    id = request.query_params.get("request", "")
    asked = kept.get(Asked, id)
    if asked is None:
        return HTMLResponse("<h1>Nobody has asked</h1>", status_code=404)
    if request.method == "GET":
        write(event="prompted", prompt="consent")
        return HTMLResponse(PAGE)
    kept.remove(Asked, id)
    params = asked.params
    code = AuthorizationCode(
        code=secrets.token_urlsafe(24),
        client_id=asked.client_id,
        scopes=params.scopes or SCOPES,
        expires_at=time.time() + 60,
        **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"}),
    )
    kept.put(code.code, code)
    write(event="authorized")
    back = construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)
    return RedirectResponse(back, status_code=302)


@server.tool()
def whoami() -> str:
    """Says what the token is for that it was called with."""
    token = get_access_token()
    return f"{' '.join(token.scopes)} for {token.resource}" if token else "nobody"


# Streams that are open are cut after a second: nothing else would let it end.
uvicorn.run(server.streamable_http_app(), port=PORT, timeout_graceful_shutdown=1)
