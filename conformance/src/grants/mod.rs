//! Real authorization servers: a person signs in once, in a real browser. Then nobody calls while the grant is renewed
//! many times, and everything is restarted in between. Nobody is asked again.
//!
//! The clock is scaled: tokens live for two seconds, and are renewed after one.

mod house;
mod log;
mod person;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use self::house::{House, Kind};
use self::log::{Line, judge};
use self::person::Person;
use crate::Failure;
use crate::gateway::{Gateway, Setup};
use crate::peer::Peer;
use crate::peers::RMCP_LEGACY;
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::GrantRow;

const AGENT: &str = RMCP_LEGACY.agent;

/// How many renewals pass while nobody calls …
const RENEWALS: usize = 30;
/// … and after how many of them each part is restarted.
const BETWEEN_RESTARTS: usize = 8;

/// How long a renewal may take to come: it is due every second, and the machine may be busy.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a connection may take to be up, and to notice that it may not be.
const CONNECT: Duration = Duration::from_secs(30);

const SETTINGS: &str = "\n[renewal]\nretry_first = \"100ms\"\nretry_max = \"500ms\"\n";

pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<Vec<GrantRow>, Failure> {
    let person = Person::new(programs, logs)?;
    let live = |kind: Kind| {
        let person = &person;
        async move {
            let outcome = live(programs, logs, person, kind).await;
            GrantRow {
                issuer: kind.name(),
                outcome: outcome.map_err(|failure| failure.to_string()),
            }
        }
    };
    let (oidc, python) = tokio::join!(live(Kind::OidcProvider), live(Kind::Python));
    Ok(vec![oidc, python])
}

/// The life of one grant; what is to be said of it.
async fn live(
    programs: &Programs,
    logs: &Logs,
    person: &Person<'_>,
    kind: Kind,
) -> Result<String, Failure> {
    let server = kind.name();
    let mut house = House::start(programs, logs, kind).await?;
    let setup = Setup {
        agents: &[AGENT],
        servers: &[(server, house.resource())],
        prefix: true,
        reads: &[],
        retry: "",
        settings: SETTINGS,
    };
    let mut gateway = Gateway::start(programs, logs, &setup).await?;
    let waits = |state: &str| state == "awaiting_sign_in";
    gateway.wait_state(AGENT, server, waits, CONNECT).await?;
    let pages = person.sign_in(&gateway, (AGENT, server)).await?;
    use_it(programs, logs, &gateway, &house).await?;

    let idle = Instant::now();
    renewals(&house, BETWEEN_RESTARTS).await?;
    house = house.restart_server().await?;
    renewals(&house, 2 * BETWEEN_RESTARTS).await?;
    house = house.restart_issuer().await?;
    renewals(&house, 3 * BETWEEN_RESTARTS).await?;
    gateway = gateway.restart(programs, logs).await?;
    renewals(&house, RENEWALS).await?;
    let idle = idle.elapsed();

    gateway.wait(AGENT, server, true, CONNECT).await?;
    use_it(programs, logs, &gateway, &house).await?;
    judge(&house.log.lines()?, kind.prompts())?;
    asked_once(&gateway, server).await?;
    person.has_nothing_to_do(&gateway).await?;
    let renewed = house.log.renewals()?;
    signs_out(person, &gateway, &house).await?;
    Ok(format!(
        "signed in once, on {pages} pages; {renewed} renewals in {idle:.1?} without a call; server, issuer and \
         gateway restarted; nobody asked again; signed out"
    ))
}

/// Waits until the grant was renewed so often.
async fn renewals(house: &House<'_>, count: usize) -> Result<(), Failure> {
    for further in house.log.renewals()? + 1..=count {
        let came = |lines: &[Line]| lines.iter().filter(|it| it.is_renewal()).count() >= further;
        house.log.wait("renewal", RENEWAL, came).await?;
    }
    Ok(())
}

/// The server takes the token, and knows it for one that is meant for it.
async fn use_it(
    programs: &Programs,
    logs: &Logs,
    gateway: &Gateway,
    house: &House<'_>,
) -> Result<(), Failure> {
    let server = house.kind.name();
    let key = gateway.key(AGENT).await?;
    let command = RMCP_LEGACY.command(programs, &gateway.url(server), &key);
    let mut peer = Peer::start(command, AGENT, logs).await?;
    let answer = peer.call("whoami", "{}").await?;
    peer.quit().await?;
    let wanted = format!("tools for {}", house.resource());
    if answer == wanted {
        Ok(())
    } else {
        Err(format!("the server says {answer:?}, not {wanted:?}").into())
    }
}

/// The connection has waited for a person before the sign-in, and never since.
async fn asked_once(gateway: &Gateway, server: &str) -> Result<(), Failure> {
    let history = gateway.history(AGENT, server).await?;
    let waits = history
        .iter()
        .filter(|it| it.get("to").and_then(Value::as_str) == Some("awaiting_sign_in"));
    match waits.count() {
        1 => Ok(()),
        count => Err(format!("it waited for a person {count} times: {history:?}").into()),
    }
}

/// Nothing is good any more that the authorization server has issued.
async fn signs_out(
    person: &Person<'_>,
    gateway: &Gateway,
    house: &House<'_>,
) -> Result<(), Failure> {
    let server = house.kind.name();
    let revoked = person.sign_out(gateway, (AGENT, server)).await?;
    if revoked != "yes" {
        return Err(format!("sign-out says {revoked:?} of the revocation").into());
    }
    let last = house.log.lines()?.pop();
    let wanted = Line::Revoked {
        status: 200,
        live: 0,
    };
    if last.as_ref() != Some(&wanted) {
        return Err(format!("the last that the issuer saw is {last:?}").into());
    }
    let waits = |state: &str| state == "awaiting_sign_in";
    gateway.wait_state(AGENT, server, waits, CONNECT).await
}
