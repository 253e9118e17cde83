//! The languages of texts for people. JSON, ids, commands and units are the same in all of them.

/// A language in which reports, drawings and manuals are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// English, the language of JSON in any case.
    #[default]
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

/// The code, the name and the punctuation of a language.
struct Row {
    language: Language,
    /// The code of the language (ISO 639-1).
    id: &'static str,
    /// The name of the language in itself.
    name: &'static str,
    glue: Glue,
}

/// The punctuation and the conjunction that join the parts of a text.
#[derive(Clone, Copy, Debug)]
pub struct Glue {
    /// Between two sentences.
    pub sentences: &'static str,
    /// At the end of a sentence.
    pub stop: &'static str,
    /// Between the items of a list.
    pub comma: &'static str,
    /// Between the last two items of a list.
    pub and: &'static str,
    /// Between clauses.
    pub semicolon: &'static str,
    /// Behind the words that introduce a text.
    pub colon: &'static str,
    /// A sentence begins with a capital letter.
    pub capitals: bool,
}

/// The languages. Another one is a row here, a variant above, and a folder of texts with its row in
/// `findings/texts.rs`.
const LANGUAGES: [Row; 2] = [
    Row {
        language: Language::English,
        id: "en",
        name: "English",
        glue: Glue {
            sentences: " ",
            stop: ".",
            comma: ", ",
            and: " and ",
            semicolon: "; ",
            colon: ": ",
            capitals: true,
        },
    },
    Row {
        language: Language::Chinese,
        id: "zh",
        name: "中文",
        glue: Glue {
            sentences: "",
            stop: "。",
            comma: "、",
            and: " 和 ",
            semicolon: "；",
            colon: "：",
            capitals: false,
        },
    },
];

impl Language {
    /// All languages.
    pub const ALL: [Self; LANGUAGES.len()] = [Self::English, Self::Chinese];

    fn row(self) -> &'static Row {
        let row = LANGUAGES.iter().find(|row| row.language == self);
        row.unwrap_or(&LANGUAGES[0])
    }

    /// Returns the code of the language, as in `--lang`.
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// Returns the name of the language in itself.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the punctuation that joins the parts of a text.
    pub fn glue(self) -> Glue {
        self.row().glue
    }

    /// Returns the language with this code.
    pub fn from_id(id: &str) -> Option<Self> {
        LANGUAGES.iter().find(|row| row.id == id).map(|row| row.language)
    }

    /// Returns the language of a locale such as `zh_CN.UTF-8`; `None` if there are no texts in it.
    pub fn of_locale(locale: &str) -> Option<Self> {
        let code = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
        Self::from_id(&code.to_ascii_lowercase())
    }

    /// Returns `sentences`, which have their stops, as one text.
    pub fn sentences(self, sentences: &[String]) -> String {
        let all: Vec<&str> =
            sentences.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
        all.join(self.glue().sentences)
    }

    /// Lists `items`: `a`, `a and b`, `a, b and c`.
    pub fn list<Item: AsRef<str>>(self, items: &[Item]) -> String {
        let Glue { comma, and, .. } = self.glue();
        match items.split_last() {
            None => String::new(),
            Some((last, [])) => last.as_ref().to_owned(),
            Some((last, others)) => {
                let others: Vec<&str> = others.iter().map(AsRef::as_ref).collect();
                format!("{}{and}{}", others.join(comma), last.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_names_its_language_before_its_country() {
        for locale in ["zh_CN.UTF-8", "zh_TW", "zh", "zh_Hans_CN.utf8", "ZH-cn"] {
            assert_eq!(Language::of_locale(locale), Some(Language::Chinese), "{locale}");
        }
        assert_eq!(Language::of_locale("en_GB.UTF-8"), Some(Language::English));
        for locale in ["C", "POSIX", "C.UTF-8", "de_DE", "", "zha_CN"] {
            assert_eq!(Language::of_locale(locale), None, "{locale}");
        }
    }

    #[test]
    fn each_language_has_its_row() {
        for language in Language::ALL {
            assert_eq!(Language::from_id(language.id()), Some(language));
        }
    }

    #[test]
    fn lists_end_in_the_word_of_their_language() {
        assert_eq!(Language::English.list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(Language::Chinese.list(&["a", "b", "c"]), "a、b 和 c");
        assert_eq!(Language::Chinese.list::<&str>(&[]), "");
    }
}
