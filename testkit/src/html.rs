//! As much of HTML as a form needs.

/// A form as a button sends it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) is_post: bool,
    pub(crate) fields: Vec<(String, String)>,
}

/// The form with the button that has this id, or else this value.
pub(crate) fn form_with(html: &str, button: &str) -> Option<Form> {
    ["id", "value"]
        .into_iter()
        .find_map(|attribute| find(html, attribute, button))
}

fn find(html: &str, identified_by: &str, button: &str) -> Option<Form> {
    let (mut form, mut pressed) = (Form::default(), None);
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let get = |name: &str| attribute(tag, name);
        let name = tag.split_ascii_whitespace().next().unwrap_or_default();
        let is_button = name == "button" || get("type").as_deref() == Some("submit");
        match name {
            "form" => {
                form = Form {
                    action: get("action").unwrap_or_default(),
                    is_post: get("method").is_some_and(|it| it.eq_ignore_ascii_case("post")),
                    fields: Vec::new(),
                };
            }
            "/form" if pressed.is_some() => {
                form.fields.extend(pressed.flatten());
                return Some(form);
            }
            _ if is_button && get(identified_by).as_deref() == Some(button) => {
                pressed = Some(get("name").zip(get("value")));
            }
            "input" if !is_button => {
                form.fields.extend(get("name").zip(get("value")));
            }
            _ => {}
        }
    }
    None
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=\"");
    let rest = &tag[tag.find(&start)? + start.len()..];
    let value = rest.split('"').next().unwrap_or_default();
    let named = [
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    let decode = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    Some(named.into_iter().fold(value.to_owned(), decode))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<form action="/a"><button id="x" name="n" value="other">A</button></form>
        <form method="post" action="/b?c=1&amp;d=2"><input type="hidden" name="k" value="&quot;v&quot;">
        <input type="submit" id="go" name="n" value="yes"><button id="no" name="n" value="no">No</button></form>"#;

    #[test]
    fn a_button_sends_the_form_that_it_stands_in_and_no_other_button() {
        let form = form_with(PAGE, "go").unwrap();
        assert_eq!((form.action.as_str(), form.is_post), ("/b?c=1&d=2", true));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(form.fields, [pair("k", "\"v\""), pair("n", "yes")]);
        assert_eq!(form_with(PAGE, "other").unwrap().action, "/a");
        assert_eq!(form_with(PAGE, "absent"), None);
    }
}
