//! Refresh tokens: rotation, reuse, ends, scopes.

use std::time::Duration;

use serde_json::json;
use testkit::Issuer;
use testkit::issuer::policy::{Reuse, Rotation};
use testkit::issuer::{Client, Kind};

use crate::app::{CALLBACK, post_form, public_client, refresh, sign_in, token};

/// A server with a client, and the first tokens.
async fn granted() -> (Issuer, Client) {
    let issuer = Issuer::start().await;
    let client = Client::public("app").redirect(CALLBACK);
    issuer.issue(client.clone(), &["read", "write"], None);
    (issuer, client)
}

#[tokio::test]
async fn answers_rotate_repeat_or_omit_the_refresh_token() {
    let (issuer, client) = granted().await;
    let turns = [
        (Rotation::Omits, "RT1", None),
        (Rotation::Rotates, "RT1", Some("RT2")),
        (Rotation::Repeats, "RT2", Some("RT2")),
        (Rotation::Omits, "RT2", None),
    ];
    for (rotation, given, next) in turns {
        issuer.change(|policy| policy.tokens.rotation = rotation);
        let (status, tokens) = refresh(&issuer, &client.id, given).await;
        assert_eq!(status, 200);
        let answered = tokens.get("refresh_token").and_then(|it| it.as_str());
        assert_eq!(answered, next, "{rotation:?}");
    }
    assert_eq!(issuer.presented(), ["RT1", "RT1", "RT2", "RT2"]);
    assert_eq!(issuer.counts().refreshes, 4);
    assert_eq!(issuer.lineage("AT5"), ["RT1", "RT2", "AT5"]);
}

#[tokio::test]
async fn a_spent_token_is_counted_and_takes_its_family_along_and_no_other() {
    let (issuer, client) = granted().await;
    issuer.issue(client.clone(), &[], None);
    let (_, tokens) = refresh(&issuer, &client.id, "RT1").await;
    assert_eq!(tokens["refresh_token"], "RT3");
    let (status, refused) = refresh(&issuer, &client.id, "RT1").await;
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_grant")));
    let counts = issuer.counts();
    assert_eq!((counts.reuses, counts.families_revoked), (1, 1));
    assert_eq!(refresh(&issuer, &client.id, "RT3").await.0, 400);
    assert_eq!(refresh(&issuer, &client.id, "RT2").await.0, 200);
    assert_eq!(issuer.live(Kind::Access), 2, "those of the other family");
}

#[tokio::test]
async fn a_lenient_server_only_refuses_or_even_takes_it_for_a_while() {
    let (issuer, client) = granted().await;
    issuer.change(|policy| {
        policy.tokens.reuse = Reuse::Refused;
        policy.tokens.reuse_grace = Duration::from_secs(60);
    });
    assert_eq!(refresh(&issuer, &client.id, "RT1").await.0, 200);
    assert_eq!(refresh(&issuer, &client.id, "RT1").await.0, 200);
    assert_eq!(issuer.counts().reuses, 0);
    issuer.change(|policy| policy.tokens.reuse_grace = Duration::ZERO);
    assert_eq!(refresh(&issuer, &client.id, "RT1").await.0, 400);
    assert_eq!(issuer.counts().reuses, 1);
    assert_eq!(refresh(&issuer, &client.id, "RT2").await.0, 200);
}

#[tokio::test]
async fn an_idle_an_old_and_a_foreign_refresh_token_are_dead() {
    let (issuer, client) = granted().await;
    let other = Client::public("other");
    issuer.issue(other.clone(), &[], None);
    assert_eq!(refresh(&issuer, &other.id, "RT1").await.0, 400);
    issuer.change(|policy| policy.tokens.refresh_idle = Some(Duration::ZERO));
    assert_eq!(refresh(&issuer, &client.id, "RT1").await.0, 400);
    issuer.change(|policy| policy.tokens.refresh_idle = Some(Duration::from_secs(60)));
    assert_eq!(refresh(&issuer, &client.id, "RT1").await.0, 200);
    issuer.expire(Kind::Refresh);
    assert_eq!(refresh(&issuer, &client.id, "RT3").await.0, 400);
    assert_eq!((issuer.live(Kind::Refresh), issuer.counts().reuses), (0, 0));
}

#[tokio::test]
async fn access_tokens_end_by_their_time_or_all_at_once() {
    let (issuer, client) = granted().await;
    issuer.change(|policy| policy.tokens.lifetime = Some(Duration::ZERO));
    issuer.issue(client.clone(), &[], None);
    assert_eq!(issuer.live(Kind::Access), 1);
    issuer.expire(Kind::Access);
    assert_eq!(issuer.live(Kind::Access), 0);
    issuer.change(|policy| {
        policy.tokens.lifetime = None;
        policy.tokens.renewal_ends_previous = true;
    });
    let (_, tokens) = refresh(&issuer, &client.id, "RT1").await;
    assert_eq!(tokens.get("expires_in"), None);
    refresh(&issuer, &client.id, "RT3").await;
    assert_eq!(issuer.live(Kind::Access), 1);
    issuer.revoke_access_tokens();
    assert_eq!(
        (issuer.live(Kind::Access), issuer.live(Kind::Refresh)),
        (0, 2)
    );
    issuer.revoke_all();
    assert_eq!(issuer.live(Kind::Refresh), 0);
}

#[tokio::test]
async fn a_renewal_may_narrow_the_scope_and_never_widens_it() {
    let (issuer, client) = granted().await;
    let scoped = async |value: &str, scope: &str| {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", client.id.as_str()),
            ("refresh_token", value),
            ("scope", scope),
        ];
        token(&issuer, &fields).await
    };
    assert_eq!(
        scoped("RT1", "read admin").await.1["error"],
        "invalid_scope"
    );
    assert_eq!(scoped("RT1", "read").await.1["scope"], "read");
    issuer.change(|policy| policy.authorization.scopes_granted = Some(vec!["write".to_owned()]));
    assert_eq!(
        refresh(&issuer, &client.id, "RT2").await.1["scope"],
        "write"
    );
}

#[tokio::test]
async fn a_renewal_is_for_the_resource_that_was_agreed_to() {
    let (issuer, client) = granted().await;
    issuer.issue(client.clone(), &[], Some("https://rs.test/mcp"));
    let renewed = async |further: &[(&str, &str)]| {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", client.id.as_str()),
            ("refresh_token", "RT2"),
        ];
        token(&issuer, &[&fields, further].concat()).await.1
    };
    let evil = renewed(&[("resource", "https://evil.test/mcp")]).await;
    assert_eq!(evil["error"], "invalid_target");
    issuer.change(|policy| policy.authorization.resource_required = true);
    assert_eq!(renewed(&[]).await["error"], "invalid_target");
    let good = renewed(&[("resource", "https://rs.test/mcp")]).await;
    let value = good["access_token"].as_str().unwrap();
    let resource = issuer.token(value).unwrap().resource;
    assert_eq!(resource.as_deref(), Some("https://rs.test/mcp"));
}

#[tokio::test]
async fn revoking_a_refresh_token_revokes_what_came_of_it() {
    let issuer = Issuer::start().await;
    let client = public_client(&issuer).await;
    sign_in(&issuer, &client, &[]).await;
    let revoke = async |client: &str| {
        let fields = [("client_id", client), ("token", "RT1")];
        post_form(&issuer, "/revoke", &[], &fields).await.status
    };
    issuer.add_client(Client::public("other"));
    assert_eq!(revoke("other").await, 200);
    assert_eq!(issuer.live(Kind::Access), 1, "it is not the other's");
    assert_eq!(revoke(&client).await, 200);
    assert_eq!(
        (issuer.live(Kind::Access), issuer.counts().revocations),
        (0, 1)
    );
    assert_eq!(refresh(&issuer, &client, "RT1").await.0, 400);
    issuer.change(|policy| policy.revocation = false);
    assert_eq!(revoke(&client).await, 404);
}
