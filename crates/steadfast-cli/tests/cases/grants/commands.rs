//! Signing in and importing by command, and what several daemons and authorization servers get to see of it.

use serde_json::{Value, json};
use testkit::issuer::Client;
use testkit::{Agent, Browser, Daemon, Issuer, PATIENCE, Protection, Server, Tls};

use super::House;
use crate::common::{daemon, daemon_at, run_with_input};

/// Where the browser ends, before it goes there.
async fn answer(house: &House, offer: &Value) -> String {
    let stop = format!("http://{}/oauth/callback", house.daemon.address());
    let browser = Browser::new().stop_at(&stop);
    browser
        .open(offer["url"].as_str().unwrap())
        .await
        .unwrap()
        .url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_pasted_signs_in() {
    let house = House::new(|daemon| daemon).await;
    house.waits().await;
    let offer = house.offer(&json!({})).await;
    let back = answer(&house, &offer).await;
    let paste = ["sign-in", "dev", "fake", "--paste", "--json"];
    let nonsense = run_with_input(&house.daemon, &paste, "http://nowhere\n").await;
    assert_eq!(nonsense.status.code(), Some(2), "{nonsense:?}");
    let strange = back.replace("state=", "state=x");
    let strange = run_with_input(&house.daemon, &paste, &strange).await;
    assert_eq!(strange.status.code(), Some(1), "{strange:?}");

    let output = run_with_input(&house.daemon, &paste, &format!("{back}\n")).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let shown: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(shown["url"], offer["url"], "the link that was open");
    house.works().await;
    assert_eq!(house.issuer.authorizations().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_are_imported_in_every_documented_form_and_shown_without_secrets() {
    const END: &str = "2100-01-01T00:00:00.000Z";
    let house = House::new(|daemon| daemon).await;
    for times in [
        json!({"expires_at": "2100-01-01T01:00:00+01:00"}),
        json!({"expires_at": 4_102_444_800_i64}),
        json!({"expires_in": 3_600, "issued_at": 4_102_441_200_i64}),
        json!({"expires_in": 3_600, "issued_at": "2099-12-31T23:00:00Z"}),
        json!({"expires_in": 3_600, "issued_at": 4_102_441_200.0}),
    ] {
        let mut grant = house.grant();
        let members = grant.as_object_mut().unwrap();
        members.remove("expires_at");
        members.insert("client_secret".to_owned(), json!("canary-client-secret"));
        members.extend(times.as_object().unwrap().clone());
        let file = house.daemon.directory().join("grant.json");
        std::fs::write(&file, grant.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let import = ["grant", "import", "dev", "fake", file, "--json"];
        let imported = house.daemon.command(&import).await.unwrap();
        assert!(imported.status.success(), "{times}: {imported:?}");
        house.connected().await;
        let show = ["grant", "show", "dev", "fake"];
        let shown = house.daemon.command(&show).await.unwrap();
        let read: Value = serde_json::from_slice(&imported.stdout).unwrap();
        assert_eq!(read["expires_at"], END, "{times}: {read}");
        assert_eq!(read["scopes"], json!(["add"]), "{read}");
        assert_eq!(read["issuer"], house.issuer.identifier(), "{read}");
        assert_eq!(read["renewable"], true, "{read}");
        for output in [imported, shown] {
            let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            for secret in ["access_token", "refresh_token", "client_secret"] {
                let secret = grant[secret].as_str().unwrap();
                assert!(!printed.contains(secret), "{secret}: {printed}");
            }
        }
        house.works().await;
        let last = house.server.log().calls("add_row").pop().unwrap();
        assert_eq!(last.bearer(), grant["access_token"].as_str(), "{times}");
    }
    let bad = json!({"access_token": "canary-1", "expires_at": "canary-2"}).to_string();
    let import = ["grant", "import", "dev", "fake"];
    let refused = run_with_input(&house.daemon, &import, &bad).await;
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!said.contains("canary-1"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_id_document_is_there_where_the_public_address_is_https() {
    let house = House::new(|daemon| daemon).await;
    let (status, _) = house.daemon.get("/oauth/client.json").await.unwrap();
    assert_eq!(status, 404, "nobody could fetch it");
    let house =
        House::new(|daemon| daemon.set_text("gateway.public_url", "https://gw.example.com/base/"))
            .await;
    let (status, document) = house.daemon.get("/oauth/client.json").await.unwrap();
    assert_eq!(status, 200, "{document}");
    // 2026-07-28 client-registration, "Client ID Metadata Documents".
    let address = "https://gw.example.com/base/oauth/client.json";
    assert_eq!(document["client_id"], address, "its own address");
    assert!(document["client_name"].is_string(), "{document}");
    let callback = "https://gw.example.com/base/oauth/callback";
    assert_eq!(document["redirect_uris"], json!([callback]));
    assert_eq!(document["token_endpoint_auth_method"], "none");
    assert!(document.get("client_secret").is_none(), "{document}");

    house.issuer.change(|policy| {
        policy.registration.documents = true;
        let documents = &mut policy.registration.known_documents;
        documents.insert(address.to_owned(), document.clone());
    });
    let offer = house.offer(&json!({})).await;
    let link: url::Url = offer["url"].as_str().unwrap().parse().unwrap();
    let mut pairs = link.query_pairs();
    let client = pairs.find(|(name, _)| name == "client_id").unwrap().1;
    assert_eq!(client, address);
    assert_eq!(house.registrations().len(), 0, "a document needs none");
}

/// Another daemon on the same store.
async fn beside(house: &House) -> Daemon {
    let other = daemon(&house.server)
        .data(house.daemon.data())
        .set("renewal.check_every", "\"200ms\"");
    other.start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_show_one_link_and_either_takes_the_answer() {
    let house = House::new(|daemon| daemon).await;
    house.waits().await;
    let other = beside(&house).await;
    let waiting = other.wait_state("dev", "fake", "awaiting_sign_in").await;
    waiting.unwrap();
    let offer = house.offer(&json!({})).await;
    let path = "/api/v1/connections/dev/fake/sign-in";
    let (status, same) = other.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{same}");
    assert_eq!(same, offer);
    assert_eq!(house.registrations().len(), 1);
    // The browser ends at the other one, by whatever way it got there.
    let back = answer(&house, &offer).await;
    let (here, there) = (house.daemon.address(), other.address());
    let there = back.replace(&here.to_string(), &there.to_string());
    let page = Browser::new().open(&there).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    other.wait_state("dev", "fake", "connected").await.unwrap();
    house.connected().await;
    let redeemed = house
        .issuer
        .log()
        .matching(|request| request.form().get("grant_type") == Some("authorization_code"));
    assert_eq!(redeemed.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_agent_is_known_to_every_daemon_whichever_made_it() {
    let house = House::signed_in(|daemon| daemon).await;
    let other = beside(&house).await;
    other.wait_state("dev", "fake", "connected").await.unwrap();
    let key_path = "/api/v1/agents/dev/key";
    let mut keys = Vec::new();
    for maker in [&house.daemon, &other, &house.daemon] {
        let (status, made) = maker.post(key_path, &Value::Null).await.unwrap();
        assert_eq!(status, 200, "{made}");
        keys.push(made["key"].as_str().unwrap().to_owned());
        let newest = keys.last().unwrap();
        for daemon in [&house.daemon, &other] {
            let agent = Agent::legacy(daemon.address(), "/mcp/fake", Some(newest));
            let hello = agent.initialize().await.unwrap();
            assert_eq!(hello.status, 200, "{hello:?}");
        }
        // The ones before are worth nothing, at once here and soon there.
        for old in &keys[..keys.len() - 1] {
            for daemon in [&house.daemon, &other] {
                let agent = Agent::legacy(daemon.address(), "/mcp/fake", Some(old));
                let refused = async {
                    while agent.initialize().await.unwrap().status != 401 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::time::timeout(PATIENCE, refused).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_goes_to_no_address_that_a_public_server_may_not_lead_to() {
    let tls = Tls::new(&["rs.test", "as.test"]).unwrap();
    let issuer = Issuer::builder().host("as.test").tls(&tls).start().await;
    let protection = Protection::by(&issuer);
    let behaviour = testkit::Behaviour::legacy("2025-11-25").protected(protection);
    let server = Server::builder(behaviour)
        .host("rs.test")
        .tls(&tls)
        .start()
        .await;
    let directory = tempfile::TempDir::new().unwrap();
    let ca_file = tls.write_ca(directory.path()).unwrap();
    let public = "{ address = \"127.0.0.1\", public = true }";
    let daemon = daemon_at(&server.url())
        .set_text("network.ca_file", ca_file.to_str().unwrap())
        .set(
            "network.resolve",
            &format!("{{ \"rs.test\" = {public}, \"as.test\" = {public} }}"),
        )
        .start()
        .await
        .unwrap();
    let house = House {
        issuer,
        server,
        daemon,
    };
    let grant = house.issuer.issue(
        Client::public("imported"),
        &["add"],
        Some(&house.server.url()),
    );
    house.import(&grant.import()).await;
    house.connected().await;
    let trap = Issuer::start().await;
    house.issuer.change(|policy| {
        policy
            .metadata
            .set("revocation_endpoint", trap.url("/revoke"));
    });
    let path = "/api/v1/connections/dev/fake/sign-out";
    let (status, answer) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["revoked"], "refused_address", "{answer}");
    house.waits().await;
    assert_eq!(trap.log().requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_for_the_challenge_carries_the_configured_headers_and_no_credential() {
    let house = House::new(|daemon| {
        daemon
            .set_text("servers.fake.headers.X-Api-Key", "Key ${vault:K}")
            .set_text("servers.fake.headers.X-Tenant", "blue")
    })
    .await;
    let body = json!({"value": "canary-key"});
    let put = house
        .daemon
        .admin("PUT", "/api/v1/vault/K", Some(&body))
        .await;
    assert_eq!(put.unwrap().0, 201);
    house.waits().await;
    let from = house.server.log().requests().len();
    house.offer(&json!({})).await;
    let asked = house.server.log().requests().split_off(from);
    let knocks: Vec<_> = asked.iter().filter(|it| it.method == "POST").collect();
    assert_eq!(knocks.len(), 1, "{asked:?}");
    assert_eq!(knocks[0].header("x-api-key"), Some("Key canary-key"));
    assert_eq!(knocks[0].header("x-tenant"), Some("blue"));
    assert_eq!(knocks[0].header("authorization"), None);
    // Not to whoever tells of the authorization server.
    let others = house.issuer.log().requests();
    assert!(others.iter().all(|it| it.header("x-api-key").is_none()));
}
