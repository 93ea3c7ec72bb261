//! What every page has around it, and how an error looks.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use steadfast_core::code;

use super::Console;
use super::session::Session;
use crate::problem::Problem;

/// What is around a page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) title: String,
    /// How many notices are open: what the bell shows.
    pub(super) waiting: usize,
    /// None where nobody is signed in.
    pub(super) csrf: Option<String>,
    pub(super) here: &'static str,
    /// Whether the page can be fetched again by its address.
    pub(super) live: bool,
}

impl Frame {
    /// For a page that everybody sees.
    pub(super) fn outside(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            waiting: 0,
            csrf: None,
            here: "",
            live: false,
        }
    }

    /// For somebody who is signed in. `here` is the page in the navigation that it belongs to.
    pub(super) async fn new(
        console: &Console,
        session: &Session,
        title: impl Into<String>,
        here: &'static str,
    ) -> Result<Self, Trouble> {
        let notices = console.admin.store.notices().await.map_err(Problem::from)?;
        Ok(Self {
            title: title.into(),
            waiting: notices
                .iter()
                .filter(|notice| notice.cleared_at.is_none())
                .count(),
            csrf: Some(session.csrf()),
            here,
            live: true,
        })
    }

    /// For a page that is the answer to a form.
    pub(super) fn once(mut self) -> Self {
        self.live = false;
        self
    }

    pub(super) const fn pages(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("/", "Overview"),
            ("/connections", "Connection health"),
            ("/operations", "Operations"),
            ("/servers", "Servers"),
            ("/vault", "Vault"),
            ("/settings", "Settings"),
        ]
    }
}

/// A rendered page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(code = %code::INTERNAL, %error, "a page cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A refusal, as a page.
#[derive(Debug)]
pub(super) struct Trouble(Problem);

impl<P: Into<Problem>> From<P> for Trouble {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct Shown {
    frame: Frame,
    code: String,
    detail: String,
    hint: &'static str,
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let title = problem.status.canonical_reason().unwrap_or("Not possible");
        let shown = Shown {
            frame: Frame::outside(title),
            code: problem.code.to_string(),
            detail: problem.detail,
            hint: problem.code.hint,
        };
        page(problem.status, &shown)
    }
}
