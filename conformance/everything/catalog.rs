//! What the server offers: tools, resources and prompts, read from `catalog.json`.

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Deserialize;

/// The names and the shapes are those that the suite's scenarios call for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Tool>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) resource_templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
}

impl Catalog {
    pub(crate) fn load() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("catalog.json"))
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
