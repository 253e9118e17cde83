//! The HTML page of `tcpwhy report`: one file, with the report and its picture as data.
//!
//! ```text
//! Report + Picture ─► data ─► render ─► HTML
//! ```
//!
//! The page is built from `web/` and committed as `page.html`: markup, style sheet and script in one
//! file, with a Content-Security-Policy that names their hashes. Nothing of a capture becomes
//! markup: the data is in an element of the type `application/json`, and the script writes it as
//! text.

use crate::model::clean::printable;
use crate::model::{Language, Report};
use crate::picture::Picture;
use crate::report::json;

/// The page without data.
const TEMPLATE: &str = include_str!("page.html");

/// The place in the template that the data replaces.
const SLOT: &str = "{{data}}";

/// Returns the page's data of one run: its report, written by `tool_version`, and the drawings.
///
/// # Errors Not expected: every value of a report has a JSON form.
pub fn data(
    report: &Report,
    picture: &Picture,
    tool_version: &str,
) -> Result<String, serde_json::Error> {
    let json = json::render_line(report, tool_version)?;
    Ok(format!("{{\"report\":{},\"picture\":{}}}", json.trim_end(), picture.json(report)))
}

/// Returns the data of a page of one run, or of two runs with their comparison, which opens in `language`,
/// or else in that of the browser: JSON that may stand in an element of HTML.
pub fn document(
    runs: &[String],
    comparison: Option<&serde_json::Value>,
    language: Option<Language>,
) -> String {
    let comparison = comparison.map_or_else(String::new, |it| format!(",\"comparison\":{it}"));
    let language = language.map_or_else(String::new, |it| format!(",\"language\":\"{}\"", it.id()));
    let runs = runs.join(",");
    let data = format!("{{\"runs\":[{runs}]{language}{comparison}}}");
    // In JSON on one line, names that were read are all that a browser could interpret.
    inert(&printable(&data))
}

/// Returns the page that shows `document`.
pub fn render(document: &str) -> String {
    TEMPLATE.replacen(SLOT, document, 1)
}

/// Escapes `<` in JSON, which occurs in strings only, so that the data cannot end its element or
/// begin a comment.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element() {
        let data = inert(r#"{"kind":"</script><!--<script>"}"#);
        assert!(!data.contains('<'));
        let back: serde_json::Value = serde_json::from_str(&data).expect("it is still JSON");
        assert_eq!(back["kind"], "</script><!--<script>");
    }

    #[test]
    fn the_page_has_one_slot_and_forbids_all_but_itself() {
        assert_eq!(TEMPLATE.matches(SLOT).count(), 1);
        assert!(TEMPLATE.contains("default-src 'none'"));
        assert!(!TEMPLATE.contains("unsafe-"));
    }
}
