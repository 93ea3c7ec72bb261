//! The files that pages refer to. They are part of the binary.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

/// One file. Small enough to be asked for again after an update, large enough to be kept for a while.
pub(super) async fn serve(Path(file): Path<String>) -> Response {
    let (content_type, text) = match file.as_str() {
        "console.css" => (
            "text/css; charset=utf-8",
            include_str!("../../assets/console.css"),
        ),
        "console.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../../assets/console.js"),
        ),
        "quiet.svg" => ("image/svg+xml", include_str!("../../assets/quiet.svg")),
        "rings.svg" => ("image/svg+xml", include_str!("../../assets/rings.svg")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "max-age=300")];
    (headers, text).into_response()
}
