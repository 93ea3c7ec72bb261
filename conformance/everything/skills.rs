//! One skill with two files, for the skills extension (SEP-2640).

use rmcp::ErrorData;
use rmcp::model::{
    GetSkillResult, ListResourcesResult, ListSkillsResult, ReadResourceResult, Resource, Skill,
    SkillFrontmatter, SkillResource, SkillResources,
};
use serde_json::json;

use crate::content::from_wire;

const ROOT: &str = "skill://release-notes";
const REFERENCES: &str = "skill://release-notes/references";
const SKILL: (&str, &str) = (
    "skill://release-notes/SKILL.md",
    "---\nname: release-notes\ndescription: Write the notes of a release\n---\n\nSee references/STYLE.md.\n",
);
const STYLE: (&str, &str) = (
    "skill://release-notes/references/STYLE.md",
    "Say what changed for the reader, in the present tense.\n",
);
const NAME: &str = "release-notes";
const DESCRIPTION: &str = "Write the notes of a release";

fn skill() -> Skill {
    let files = [SKILL, STYLE]
        .map(|(uri, text)| SkillResource::from_bytes(uri, text.as_bytes()))
        .to_vec();
    Skill::new(
        SKILL.0,
        SkillFrontmatter::new(NAME, DESCRIPTION),
        SkillResources::Files(files),
    )
}

pub(crate) fn list() -> ListSkillsResult {
    ListSkillsResult::with_all_items(vec![skill()])
}

pub(crate) fn get(uri: &str) -> Result<GetSkillResult, ErrorData> {
    let skill = skill();
    if uri == skill.uri {
        Ok(GetSkillResult::new(skill))
    } else {
        Err(unknown(uri))
    }
}

/// The manifest as an entry of `resources/list`.
pub(crate) fn manifest() -> Resource {
    Resource::new(SKILL.0, NAME)
        .with_description(DESCRIPTION)
        .with_mime_type("text/markdown")
}

pub(crate) fn directory(uri: &str) -> Result<ListResourcesResult, ErrorData> {
    let style = Resource::new(STYLE.0, "STYLE.md").with_mime_type("text/markdown");
    let children = match uri {
        ROOT => vec![
            manifest(),
            Resource::new(REFERENCES, "references").with_mime_type("inode/directory"),
        ],
        REFERENCES => vec![style],
        other => return Err(unknown(other)),
    };
    Ok(ListResourcesResult::with_all_items(children))
}

pub(crate) fn read(uri: &str) -> Result<Option<ReadResourceResult>, ErrorData> {
    let Some((uri, text)) = [SKILL, STYLE].into_iter().find(|(known, _)| *known == uri) else {
        return Ok(None);
    };
    let contents = from_wire(json!({ "uri": uri, "mimeType": "text/markdown", "text": text }))?;
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::invalid_params("no such skill or directory", Some(json!({ "uri": uri })))
}
