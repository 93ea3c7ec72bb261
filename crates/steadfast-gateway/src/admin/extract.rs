//! What handlers take from a request. What cannot be read is refused with problem details, as everything else is.

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use steadfast_core::code;

use crate::problem::Problem;

/// The parts of the path that have names.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0))
            .map_err(|refused| refusal(refused.status(), refused.body_text()))
    }
}

/// The query.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|query| Self(query.0))
            .map_err(|refused| refusal(refused.status(), refused.body_text()))
    }
}

/// The body as it came.
pub(super) struct Body(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let read = Bytes::from_request(request, state).await;
        read.map(Self)
            .map_err(|refused| refusal(refused.status(), refused.body_text()))
    }
}

fn refusal(status: StatusCode, text: String) -> Problem {
    let code = if status == StatusCode::PAYLOAD_TOO_LARGE {
        code::TOO_LARGE
    } else {
        code::BAD_MESSAGE
    };
    Problem::new(status, code, text)
}
