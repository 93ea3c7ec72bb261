//! `/api/v1/openapi.json`: says what the API does, all of it, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::House;
use serde_json::{Value, json};
use testkit::{Behaviour, client};

const ADMIN: (&str, &str) = ("authorization", "Bearer admin");

async fn ask(house: &House, method: &str, path: &str) -> client::Response {
    let sent = client::send(house.address(), method, path, &[ADMIN], b"").await;
    sent.unwrap().response().await.unwrap()
}

async fn document(house: &House) -> Value {
    let mut answer = ask(house, "GET", "/api/v1/openapi.json").await;
    assert_eq!(answer.status, 200);
    answer.json().await.unwrap()
}

/// Each path with each of its methods.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            found.push((path.clone(), method.to_uppercase(), operation.clone()));
        }
    }
    found
}

#[tokio::test]
async fn the_document_has_every_call_of_the_contract() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let document = document(&house).await;
    assert_eq!(document["openapi"], "3.1.0");
    let found: Vec<String> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| format!("{method} {path}"))
        .collect();
    let connection = "/connections/{agent}/{server}";
    for wanted in [
        "GET /connections".to_owned(),
        format!("GET {connection}"),
        format!("POST {connection}/reload"),
        "POST /agents/{agent}/reload".to_owned(),
        format!("POST {connection}/sign-in"),
        format!("POST {connection}/sign-out"),
        format!("GET {connection}/grant"),
        format!("PUT {connection}/grant"),
        format!("GET {connection}/history"),
        format!("POST {connection}/doctor"),
        "POST /doctor".to_owned(),
        "GET /operations".to_owned(),
        "GET /operations/{id}".to_owned(),
        "POST /operations/{id}/reconcile".to_owned(),
        "POST /operations/{id}/settle".to_owned(),
        "GET /notices".to_owned(),
        "GET /agents".to_owned(),
        "GET /agents/{name}".to_owned(),
        "PUT /agents/{name}".to_owned(),
        "DELETE /agents/{name}".to_owned(),
        "POST /agents/{name}/key".to_owned(),
        "GET /servers".to_owned(),
        "PUT /servers/{name}".to_owned(),
        "DELETE /servers/{name}".to_owned(),
        "GET /vault".to_owned(),
        "PUT /vault/{name}".to_owned(),
        "DELETE /vault/{name}".to_owned(),
        "GET /config".to_owned(),
        "GET /changes".to_owned(),
    ] {
        assert!(found.contains(&wanted), "{wanted} is not among {found:#?}");
    }
}

/// A method that the document has is served, and one that it does not have is not.
#[tokio::test]
async fn the_router_serves_what_the_document_has_and_no_more() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let document = document(&house).await;
    let all = operations(&document);
    for path in document["paths"].as_object().unwrap().keys() {
        // Names that nothing has: whatever is asked for changes nothing.
        let asked = path.replace("{agent}", "x").replace("{server}", "x");
        let asked = asked.replace("{name}", "x").replace("{id}", "x");
        let asked = format!("/api/v1{asked}");
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let is_there = all.iter().any(|(of, its, _)| of == path && its == method);
            let mut answer = ask(&house, method, &asked).await;
            assert_eq!(answer.status != 405, is_there, "{method} {path}");
            if answer.status == 404 {
                let problem = answer.json().await.unwrap();
                let detail = problem["detail"].as_str().unwrap();
                assert!(
                    !detail.contains("at this path"),
                    "{method} {path}: {detail}"
                );
            } else if answer.status == 405 {
                assert!(answer.header("allow").is_some(), "{method} {path}");
            }
        }
    }
}

/// Whatever is referred to is there, and every refusal is a problem.
#[tokio::test]
async fn references_lead_somewhere_and_refusals_are_problems() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let document = document(&house).await;
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for (path, method, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses.contains_key("401") && responses.contains_key("403"),
            "{method} {path}"
        );
        for (status, response) in responses {
            if status.starts_with('2') {
                continue;
            }
            let pointer = response["$ref"].as_str().unwrap().trim_start_matches('#');
            let content = &document.pointer(pointer).unwrap()["content"];
            assert_eq!(
                content["application/problem+json"]["schema"],
                json!({"$ref": "#/components/schemas/Problem"}),
                "{method} {path} {status}"
            );
        }
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            references.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members.values().for_each(|it| collect(it, references));
        }
        Value::Array(items) => items.iter().for_each(|it| collect(it, references)),
        _ => {}
    }
}

/// Also what cannot be read at all is refused in our own words.
#[tokio::test]
async fn what_cannot_be_read_is_a_problem() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    for path in [
        "/operations?limit=-1",
        "/operations?limit=99999999999999999999999",
        "/connections?nothing=1",
        "/agents/%ff",
    ] {
        let mut answer = ask(&house, "GET", &format!("/api/v1{path}")).await;
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        assert_eq!(answer.json().await.unwrap()["code"], "SF0065", "{path}");
    }
    let large = vec![b' '; 3 << 20];
    let sent = client::send(
        house.address(),
        "PUT",
        "/api/v1/servers/x",
        &[ADMIN],
        &large,
    )
    .await;
    let mut answer = sent.unwrap().response().await.unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(answer.json().await.unwrap()["code"], "SF0043");
}
