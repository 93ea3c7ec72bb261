//! Fixed content: the smallest image and sound, resources, and prompts.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, ReadResourceResult};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One red pixel.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// A WAV header and no samples.
pub(crate) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(crate) const WATCHED_RESOURCE: &str = "test://watched-resource";

/// Builds one of rmcp's types from the JSON that goes on the wire.
pub(crate) fn from_wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The contents of a resource that is not a skill, or `None` where there is no such resource.
pub(crate) fn resource(uri: &str, updates: u64) -> Result<Option<ReadResourceResult>, ErrorData> {
    let contents = match uri {
        "test://static-text" => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource."
        }),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        WATCHED_RESOURCE => json!({
            "uri": uri, "mimeType": "text/plain", "text": format!("Updated {updates} times.")
        }),
        other => {
            let Some(id) = template_id(other) else {
                return Ok(None);
            };
            let data =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": other, "mimeType": "application/json", "text": data.to_string() })
        }
    };
    Ok(Some(ReadResourceResult::new(vec![from_wire(contents)?])))
}

/// The variable of `test://template/{id}/data`; RFC 6570 simple expansion never yields a `/`.
fn template_id(uri: &str) -> Option<&str> {
    let id = uri
        .strip_prefix("test://template/")?
        .strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// A prompt that asks for nothing, or `None` where there is no such prompt.
pub(crate) fn prompt(
    name: &str,
    arguments: Option<&JsonObject>,
) -> Result<Option<GetPromptResult>, ErrorData> {
    let argument = |key: &str| {
        arguments
            .and_then(|arguments| arguments.get(key))
            .and_then(Value::as_str)
            .ok_or_else(|| ErrorData::invalid_params(format!("argument {key} is required"), None))
    };
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            vec![text(&format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({ "type": "resource", "resource": {
                "uri": argument("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing."
            } }),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PNG, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        _ => return Ok(None),
    };
    prompt_of(contents).map(Some)
}

/// A prompt with one user message for each piece of content.
pub(crate) fn prompt_of(contents: Vec<Value>) -> Result<GetPromptResult, ErrorData> {
    let messages = contents
        .into_iter()
        .map(|content| from_wire(json!({ "role": "user", "content": content })))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(GetPromptResult::new(messages))
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
