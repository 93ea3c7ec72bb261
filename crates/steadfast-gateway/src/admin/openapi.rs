//! `/api/v1/openapi.json`: made from the functions that serve the API, so that it cannot say anything else than they
//! do. What every function may answer is added here, once.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, Required, Response,
    ResponseBuilder, ServerBuilder,
};
use utoipa::{IntoResponses, ToSchema as _};

use crate::problem::Details;

/// The name of the scheme by which the admin token is asked for.
const TOKEN: &str = "admin_token";

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $status:ident $text:literal;)*) => {
        $(
            $(#[$doc])*
            pub(super) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let reference = RefOr::Ref(Ref::from_response_name(stringify!($name)));
                    BTreeMap::from([(StatusCode::$status.as_str().to_owned(), reference)])
                }
            }
        )*

        /// Each with what it means.
        const REFUSALS: &[(&str, &str)] = &[$((stringify!($name), $text)),*];
    };
}

refusals! {
    /// For whatever takes parameters.
    BadRequest = BAD_REQUEST "A parameter or the body cannot be understood, or has a value that cannot be used.";
    /// For all.
    Unauthorized = UNAUTHORIZED "The admin token is missing, or is not the right one.";
    /// For all.
    Forbidden = FORBIDDEN "The Host or the Origin of the request is not one of ours.";
    /// Where something is looked for by its name.
    NotFound = NOT_FOUND "There is nothing of that name.";
    /// Where what is there may not be changed so.
    Conflict = CONFLICT "It came from the configuration file and is read-only here, or cannot be changed as it stands.";
    /// For whatever takes a body.
    TooLarge = PAYLOAD_TOO_LARGE "The body is too large.";
    /// For all.
    Internal = INTERNAL_SERVER_ERROR "Something went wrong that should not.";
    /// Where others are asked.
    BadGateway = BAD_GATEWAY "The server, or its authorization server, does not play along; `code` is that of the fault.";
    /// For all.
    Unavailable = SERVICE_UNAVAILABLE "The store refuses, or the daemon stops.";
}

/// Adds what holds for all.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Steadfast admin API")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Agents, servers, their connections, grants, operations and notices. Refusals are problem details \
             (RFC 9457) with a code of Steadfast's own and a hint.",
        ))
        .license(None)
        .build();
    document.servers = Some(vec![ServerBuilder::new().url("/api/v1").build()]);
    let components = document.components.get_or_insert_default();
    add_components(components);
    merge_parts(components);
    document.security = Some(vec![SecurityRequirement::new(TOKEN, [] as [&str; 0])]);
    for (path, item) in &mut document.paths.paths {
        for (_, operation) in operations(item) {
            add_names(operation, path);
            add_refusals(operation);
        }
    }
    document
}

/// A whole of several parts becomes one object: a part that refuses members that it does not know would refuse those
/// of the others.
fn merge_parts(components: &mut Components) {
    let before = components.schemas.clone();
    for schema in components.schemas.values_mut() {
        let RefOr::T(Schema::AllOf(whole)) = schema else {
            continue;
        };
        let mut merged = Object::new();
        merged.description.clone_from(&whole.description);
        for part in &whole.items {
            if let Some(part) = object(part, &before) {
                merged.properties.extend(part.properties.clone());
                merged.required.extend(part.required.iter().cloned());
            }
        }
        *schema = RefOr::T(Schema::Object(merged));
    }
}

/// The object that a part is, or that it refers to.
fn object<'c>(
    part: &'c RefOr<Schema>,
    components: &'c BTreeMap<String, RefOr<Schema>>,
) -> Option<&'c Object> {
    match part {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next()?;
            match components.get(name)? {
                RefOr::T(Schema::Object(object)) => Some(object),
                RefOr::T(_) | RefOr::Ref(_) => None,
            }
        }
        RefOr::T(_) => None,
    }
}

fn add_components(components: &mut Components) {
    components.add_security_scheme(
        TOKEN,
        SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
    );
    components
        .schemas
        .insert(Details::name().into_owned(), schema());
    for (name, text) in REFUSALS {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Details::name())));
        let response = ResponseBuilder::new()
            .description(*text)
            .content("application/problem+json", content.build())
            .build();
        components
            .responses
            .insert((*name).to_owned(), response.into());
    }
}

fn schema() -> RefOr<Schema> {
    use utoipa::PartialSchema as _;
    Details::schema()
}

/// Each method of a path that is served.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// The parts of the path that have names: `{agent}`.
fn add_names(operation: &mut Operation, path: &str) {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for name in names {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
        let there = operation.parameters.get_or_insert_default();
        there.push(parameter.build().into());
    }
}

fn add_refusals(operation: &mut Operation) {
    let takes_body = operation.request_body.is_some();
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let takes_parameters = !parameters.is_empty();
    let mut refusals = vec![
        Unauthorized::responses(),
        Forbidden::responses(),
        Internal::responses(),
        Unavailable::responses(),
    ];
    if takes_body || takes_parameters {
        refusals.push(BadRequest::responses());
    }
    if takes_body {
        refusals.push(TooLarge::responses());
    }
    let there = &mut operation.responses.responses;
    for (status, response) in refusals.into_iter().flatten() {
        there.entry(status).or_insert(response);
    }
}
