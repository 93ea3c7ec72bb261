//! How people are told: once when something waits for them, once when it is mended.

use serde_json::{Value, json};
use testkit::reply::status;
use testkit::script::any;
use testkit::{Behaviour, Browser, Daemon, MailServer, PATIENCE, RequestLog, Server, Tls};

use super::House;
use crate::common::daemon;

async fn set(daemon: &Daemon, name: &str, value: &str) {
    let body = json!({ "value": value });
    let path = format!("/api/v1/vault/{name}");
    let (status, answer) = daemon.admin("PUT", &path, Some(&body)).await.unwrap();
    assert!(matches!(status, 200 | 201), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_written_about_once_whoever_of_several_daemons_does_it() {
    const PASSWORD: &str = "cL2xN7vRq4:Tz";
    let mail = MailServer::start().await;
    // Once it is asked to wait: the message is handed over again.
    mail.refuse("451 4.3.0 Try again later");
    let server = Server::start(Behaviour::modern()).await;
    let configured = || {
        daemon(&server)
            .set_text("servers.fake.headers.X-Api-Key", "${vault:K}")
            .set_text("notify.email.to", "Ops <ops@example.com>, boss@example.com")
            .set_text("notify.email.from", "steadfast@example.com")
            .set_text("notify.email.smtp", "${vault:SMTP_URL}")
            .set("renewal.check_every", "\"100ms\"")
    };
    let first = configured().start().await.unwrap();
    let second = configured().data(first.data()).start().await.unwrap();
    let password = PASSWORD.replace(':', "%3A");
    let smtp = format!("smtp://ops%40example.com:{password}@{}", mail.address());
    set(&first, "SMTP_URL", &smtp).await;
    let opened = mail.wait_for(1).await.remove(0);
    assert_eq!(opened.from, "steadfast@example.com");
    assert_eq!(opened.to, ["ops@example.com", "boss@example.com"]);
    let login = ("ops@example.com".to_owned(), PASSWORD.to_owned());
    assert_eq!(opened.login, Some(login));
    let subject = opened.header("Subject").unwrap();
    assert_eq!(
        subject,
        "Steadfast: the server fake of the agent dev needs you"
    );
    for part in [
        "the secret K",
        "SF0009",
        "steadfast vault set",
        "Reloading does not help",
    ] {
        assert!(opened.body().contains(part), "{part}: {}", opened.body());
    }

    set(&second, "K", "x").await;
    let cleared = mail.wait_for(2).await.remove(1);
    assert!(cleared.body().contains("needs you no more"), "{cleared:?}");
    assert_eq!(cleared.header("In-Reply-To"), opened.header("Message-ID"));
    // The next thing that is told is the next notice: nothing was told twice.
    first
        .admin("DELETE", "/api/v1/vault/K", None)
        .await
        .unwrap();
    let third = mail.wait_for(3).await.remove(2);
    assert_eq!(third.header("Subject"), Some(subject));
    assert_ne!(third.header("Message-ID"), opened.header("Message-ID"));
    for daemon in [&first, &second] {
        let log = daemon.stderr();
        assert!(!log.contains(PASSWORD) && !log.contains(&password), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_of_a_message_leads_to_the_sign_in_that_clears_it_and_nowhere_else() {
    let hook = Server::start(Behaviour::modern()).await;
    hook.script().on(any()).reply(status(204));
    let url = hook.url();
    let house = House::new(|daemon| daemon.set_text("notify.webhook", &url)).await;
    let told = |count: usize| move |log: &RequestLog| log.requests().len() >= count;
    hook.log().wait_for(told(1), PATIENCE).await.unwrap();
    let message = hook.log().requests().remove(0);
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).unwrap();
    let link = text("/link").to_owned();
    assert!(
        text("/text").ends_with(&format!("Sign in: {link}")),
        "{message:?}"
    );
    // Nobody else's, and not a guess.
    let other = link.replace("notice=1", "notice=2");
    assert_ne!(other, link);
    let guess = link.replace("key=", "key=A");
    for wrong in [&other, &guess] {
        let page = Browser::new().open(wrong).await.unwrap();
        assert_eq!(page.status, 410, "{page:?}");
    }
    assert!(house.issuer.authorizations().is_empty());

    let page = Browser::new().open(&link).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    house.connected().await;
    hook.log().wait_for(told(2), PATIENCE).await.unwrap();
    let cleared = hook.log().requests().remove(1);
    assert_eq!(cleared.pointer("/link"), Some(&Value::Null), "{cleared:?}");
    let page = Browser::new().open(&link).await.unwrap();
    assert_eq!(page.status, 410, "it is over: {page:?}");
    assert_eq!(house.issuer.authorizations().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_mail_server_will_not_have_is_given_up_and_the_next_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Tls::new(&["localhost"]).unwrap();
    let ca = tls.write_ca(folder.path()).unwrap();
    let mail = MailServer::start_tls(&tls).await;
    mail.refuse("554 5.7.1 No such message here");
    let server = Server::start(Behaviour::modern()).await;
    let smtp = format!("smtps://localhost:{}", mail.address().port());
    let daemon = daemon(&server)
        .set_text("network.ca_file", ca.to_str().unwrap())
        .set_text("servers.fake.headers.X-Api-Key", "${vault:K}")
        .set_text("notify.email.to", "ops@example.com")
        .set_text("notify.email.smtp", &smtp)
        .start()
        .await
        .unwrap();
    mail.refused().await;
    // Nobody has heard of the first one, yet it counts as told: what is told next is that it is over.
    set(&daemon, "K", "x").await;
    let mails = mail.wait_for(1).await;
    assert!(mails[0].body().contains("needs you no more"), "{mails:?}");
    assert_eq!(
        mails[0].header("From").unwrap(),
        "Steadfast <ops@example.com>"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_told_once_and_once_more_when_it_is_cleared() {
    let hook = Server::start(Behaviour::modern()).await;
    // The first message is not taken: it is sent again.
    hook.script().on(any().times(1)).reply(status(500));
    hook.script().on(any()).reply(status(204));
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .set_text("servers.fake.headers.X-Api-Key", "${vault:K}")
        .set_text("notify.webhook", &hook.url())
        .start()
        .await
        .unwrap();
    let told = |count: usize| move |log: &RequestLog| log.requests().len() >= count;
    hook.log().wait_for(told(2), PATIENCE).await.unwrap();

    let listed = daemon.command(&["notices", "--json"]).await.unwrap();
    assert_eq!(listed.status.code(), Some(3), "a person must act");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["notices"][0]["fault"]["code"], "SF0009", "{listed}");
    let status = daemon.command(&["status"]).await.unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.ends_with("\n1 notice is open: steadfast notices\n"),
        "{status}"
    );

    let body = json!({"value": "x"});
    let put = daemon.admin("PUT", "/api/v1/vault/K", Some(&body)).await;
    assert_eq!(put.unwrap().0, 201);
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    hook.log().wait_for(told(3), PATIENCE).await.unwrap();
    let listed = daemon.command(&["notices"]).await.unwrap();
    assert_eq!(listed.status.code(), Some(0));

    // What comes after a restart would be told after what was told already.
    let mut daemon = daemon;
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    daemon
        .admin("DELETE", "/api/v1/vault/K", None)
        .await
        .unwrap();
    hook.log().wait_for(told(4), PATIENCE).await.unwrap();
    let requests = hook.log().requests();
    let said: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| {
            let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap();
            assert_eq!(request.method, "POST");
            (text("/event"), text("/text"))
        })
        .collect();
    let events: Vec<_> = said.iter().map(|(event, _)| *event).collect();
    assert_eq!(events, ["opened", "opened", "cleared", "opened"]);
    let opened = said[0].1;
    for part in ["`fake`", "`dev`", "the secret K", "Reloading does not help"] {
        assert!(opened.contains(part), "{part}: {opened}");
    }
}
