//! Text that was read from somewhere else: a capture, a file or its name, another process, a server.
//! It may contain characters that a terminal, a browser or an editor interprets, so that something
//! else is shown than what was read.

/// Returns whether `char` is interpreted, not shown: control characters (C0, C1), line and paragraph
/// separators, marks that change the direction of text (UAX #9), characters without width (UTR #36),
/// tags, private characters and noncharacters.
pub fn is_interpreted(char: char) -> bool {
    let code = u32::from(char);
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
        || matches!(code, 0xe000..=0xf8ff | 0xf_0000..)
        || matches!(code, 0xfdd0..=0xfdef)
        || code & 0xfffe == 0xfffe
}

/// Replaces characters that would be interpreted by `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|char| if is_interpreted(char) { '?' } else { char }).collect()
}

/// Appends the escape of `char` that JSON defines (RFC 8259 §7): `\u202e`.
pub fn push_escape(char: char, text: &mut String) {
    use std::fmt::Write;
    let mut units = [0; 2];
    for unit in char.encode_utf16(&mut units) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_interpreted_is_not_printed() {
        assert_eq!(
            printable("a\u{1b}[31mb\u{202e}c\n\u{9b}\u{200b}\u{e0041}\u{e000}"),
            "a?[31mb?c?????"
        );
        assert_eq!(printable("Zürich → 東京 µs · ½"), "Zürich → 東京 µs · ½");
    }

    #[test]
    fn an_escape_is_that_of_json() {
        for char in ['\u{1b}', '\u{202e}', '\u{e0041}'] {
            let mut text = String::new();
            push_escape(char, &mut text);
            let read: String = serde_json::from_str(&format!("\"{text}\"")).expect("JSON");
            assert_eq!(read, char.to_string());
        }
    }
}
