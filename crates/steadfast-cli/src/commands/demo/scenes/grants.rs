//! What a person has allowed: kept alive while nobody calls, and asked for again only where it was taken back.

use std::time::Duration;

use serde_json::json;
use testkit::issuer::policy::Rotation;
use testkit::{PATIENCE, Request, RequestLog};

use crate::commands::demo::scene::{Broken, Proof, Scene, seconds, times};
use crate::commands::demo::stage::{SENT, Stage, UNREAD};

/// Nobody waits for a person.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Where the token endpoint moves to.
const ELSEWHERE: &str = "/oauth2/token";

pub(super) const RENEWALS: &[Scene] = &[
    Scene {
        title: "A renewal brings no refresh token",
        fault: "Nobody calls, and the mail server's tokens live for a second and a half. From now on the answer to a \
                renewal has no refresh token in it, as OAuth allows.",
        naive: "renews when somebody calls, which is too late, and stores the answer as it is: the refresh token is lost.",
        steadfast: "renews by the clock, ahead of the end, and keeps what an answer leaves out.",
        play: |stage| Box::pin(no_refresh_token(stage)),
    },
    Scene {
        title: "The token endpoint has moved",
        fault: "The authorization server takes renewals at another address; the old one answers 404.",
        naive: "takes 404 for the end of the grant, deletes it, and sends a person to sign in again.",
        steadfast: "keeps the grant, asks the authorization server for its token endpoint, and renews there.",
        play: |stage| Box::pin(moved(stage)),
    },
];

pub(super) const REFUSAL: &[Scene] = &[Scene {
    title: "The consent is withdrawn",
    fault: "Somebody ends the agent's access at the authorization server: the next renewal is refused for good.",
    naive: "presents the dead token again and again, or drops it without a word.",
    steadfast: "asks no more, answers calls with the reason, and tells a person once. A sign-in mends it.",
    play: |stage| Box::pin(refused(stage)),
}];

fn is_renewal(request: &Request) -> bool {
    request.form().get("grant_type") == Some("refresh_token")
}

/// The refresh token that a renewal presents.
fn presented(renewal: &Request) -> String {
    let form = renewal.form();
    form.get("refresh_token").unwrap_or_default().to_owned()
}

async fn no_refresh_token(stage: &Stage) -> Result<Proof, Broken> {
    let (mail, issuer) = (&stage.mail, &stage.issuer);
    let calls = mail.server.log().calls("unread").len();
    let from = issuer.log().requests().len();
    issuer.change(|policy| policy.tokens.rotation = Rotation::Omits);
    let renewals = |log: &RequestLog| log.matching(|it| it.index >= from && is_renewal(it));
    // An answer that was on its way may have brought one.
    let enough = |log: &RequestLog| renewals(log).len() >= 3;
    issuer.log().wait_for(enough, PATIENCE).await?;
    let renewed = renewals(issuer.log());
    let idle = mail.server.log().calls("unread").len() == calls;
    let answer = mail.legacy.call("unread", json!({})).await?;
    let connection = stage.connection(mail).await?;

    let mut proof = Proof::default();
    proof.claim(
        idle,
        format!("renewed {} while nobody called", times(renewed.len())),
    );
    let tokens: Vec<_> = renewed.iter().map(|it| presented(it)).collect();
    let [.., first, again] = &tokens[..] else {
        return Err(Broken(format!("it was renewed {}", times(tokens.len()))));
    };
    proof.claim(
        first == again,
        format!("the refresh token was kept: {again} was presented again"),
    );
    proof.answered(&answer, UNREAD);
    proof.claim(
        connection.state == "connected" && connection.grant.renewable == Some(true),
        format!(
            "`steadfast status` says {}, and that it can be renewed",
            connection.state
        ),
    );
    Ok(proof)
}

async fn moved(stage: &Stage) -> Result<Proof, Broken> {
    let (mail, issuer) = (&stage.mail, &stage.issuer);
    let old = issuer.token_endpoint();
    let sign_ins = issuer.authorizations().len();
    let from = issuer.log().requests().len();
    issuer.move_token_endpoint(ELSEWHERE, 404);
    let at = |path: &'static str| {
        move |it: &Request| it.index >= from && it.path_only() == path && is_renewal(it)
    };
    let there = at(ELSEWHERE);
    let found = |log: &RequestLog| !log.matching(there).is_empty();
    issuer.log().wait_for(found, PATIENCE).await?;
    let arguments = json!({ "to": "the team", "text": "the endpoint has moved" });
    let answer = mail.legacy.call("send", arguments.clone()).await?;

    let mut proof = Proof::default();
    let before = issuer.log().matching(at("/token"));
    let asked = issuer
        .log()
        .matching(|it| it.index >= from && it.path_only().starts_with("/.well-known/"));
    proof.claim(
        !before.is_empty() && !asked.is_empty(),
        format!(
            "{old} answered 404 {}, and the authorization server was asked for its address",
            times(before.len())
        ),
    );
    let after = issuer.log().matching(there);
    let tokens = before.last().zip(after.first());
    let tokens = tokens.map(|(before, after)| (presented(before), presented(after)));
    let (before, after) = tokens.unwrap_or_default();
    proof.claim(
        !before.is_empty() && before == after,
        format!("the refresh token that it had refused, {before}, was good at {ELSEWHERE}"),
    );
    let more = issuer.authorizations().len() - sign_ins;
    proof.claim(
        more == 0,
        format!("a person was {} asked to sign in", times(more)),
    );
    proof.answered(&answer, SENT);
    mail.claim_one_run(&mut proof, "send", &arguments)?;
    Ok(proof)
}

async fn refused(stage: &Stage) -> Result<Proof, Broken> {
    let (mail, issuer) = (&stage.mail, &stage.issuer);
    let from = issuer.presented().len();
    issuer.revoke_all();
    let waiting = stage.until(mail, |report| report.state == "awaiting_sign_in");
    let waiting = waiting.await?;
    let notice = stage.notice(mail, true).await?;
    let refused = mail.legacy.call("unread", json!({})).await?;

    let page = stage.sign_in(mail).await?;
    stage.connected(mail).await?;
    let cleared = stage.notice(mail, false).await?;
    let arguments = json!({ "to": "the team", "text": "signed in again" });
    let answer = mail.legacy.call("send", arguments.clone()).await?;
    let presented = issuer.presented();

    let mut proof = Proof::default();
    let fault = waiting.fault.map(|fault| fault.kind).unwrap_or_default();
    let is_told = refused.is_error() && fault == "grant_refused";
    proof.claim(
        is_told && refused.took < AT_ONCE,
        format!("a call was answered after {}", seconds(refused.took)),
    );
    proof.model_reads = Some(refused.text().to_owned());
    let dead = presented.get(from);
    let again = presented.iter().filter(|it| Some(*it) == dead).count();
    // Once when it was due, and once more when the access token had come to its end.
    proof.claim(
        (1..=2).contains(&again),
        format!("the refused token was presented {} in all", times(again)),
    );
    proof.claim(
        notice["reload_helps"] == false,
        "`steadfast notices` has one notice, which says that reloading does not help",
    );
    proof.claim(
        page.contains("signed in to mail") && cleared["opened_at"] == notice["opened_at"],
        "a person signed in, and the notice cleared itself",
    );
    proof.answered(&answer, SENT);
    mail.claim_one_run(&mut proof, "send", &arguments)?;
    Ok(proof)
}
