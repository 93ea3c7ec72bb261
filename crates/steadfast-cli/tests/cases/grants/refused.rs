//! Sign-ins that must not begin, or not go through.

use serde_json::json;
use testkit::Browser;

use super::House;

#[tokio::test(flavor = "multi_thread")]
async fn browsers_do_not_come_back_by_plain_http_from_elsewhere() {
    let public = "http://gateway.test:7420";
    let house = House::new(|daemon| daemon.set_text("gateway.public_url", public)).await;
    let path = "/api/v1/connections/dev/fake/sign-in";
    let (status, problem) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 502, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("gateway.test:7420"), "{problem}");
    assert!(house.registrations().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_wants_a_proof_of_possession_is_not_sent_as_a_bearer_token() {
    let house = House::new(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.answers.token_type = "DPoP".to_owned());
    let offer = house.offer(&json!({})).await;
    let link = offer["url"].as_str().unwrap();
    let page = Browser::new().open(link).await.unwrap();
    assert_eq!(page.status, 502, "{page:?}");
    assert!(page.body.contains("proof of possession"), "{page:?}");
    house.waits().await;
    let sent = house
        .server
        .log()
        .matching(|request| request.header("authorization").is_some());
    assert!(sent.is_empty(), "{sent:?}");
}
