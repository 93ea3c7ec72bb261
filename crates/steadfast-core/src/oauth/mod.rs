//! The rules of finding and choosing in OAuth: where metadata may stand, whether it is about whom it should be
//! about, which scopes to ask for, which client to be. Nothing here fetches anything.
//!
//! | module | rules of |
//! | --- | --- |
//! | [`discovery`] | RFC 9728, RFC 8414, OpenID Connect Discovery 1.0, in the order of the specification |
//! | [`scopes`] | 2026-07-28 basic/authorization, "Scope Selection Strategy" |
//! | [`step_up`] | 2026-07-28 basic/authorization, "Step-Up Authorization Flow" |
//! | [`reach`] | which addresses a server's metadata may lead to |
//! | [`assertion`] | RFC 7523, and draft-ietf-oauth-rfc7523bis |
//! | [`bearer`] | RFC 9068, RFC 7662: whose an access token is that an agent sends |
//! | [`needs`] | what a request of an agent needs of its access token |
//! | [`client`] | 2026-07-28 basic/authorization/client-registration, and RFC 7591 |

pub mod assertion;
pub mod bearer;
pub mod client;
pub mod discovery;
pub mod needs;
pub mod reach;
pub mod scopes;
pub mod step_up;
