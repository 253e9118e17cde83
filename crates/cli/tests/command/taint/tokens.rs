//! Tokens that occur nowhere else, one for each field that a user can fill.

use std::cell::RefCell;
use std::collections::HashSet;

/// Bytes of a token of which no part may appear.
const PART: usize = 4;

/// The outputs in which SECURITY.md permits a field to appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In no output.
    Never,
    /// In reports, pages and tables, but not in anonymized captures.
    InReports,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub field: String,
    pub text: String,
    pub shown: Shown,
    /// A part of four bytes of it betrays it too.
    pub in_parts: bool,
}

/// Makes tokens, the same in each run.
#[derive(Default)]
pub struct Tokens {
    state: RefCell<u64>,
    pub all: RefCell<Vec<Token>>,
}

/// Letters that make no word.
const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz";

impl Tokens {
    fn next(&self, below: usize) -> usize {
        let mut state = self.state.borrow_mut();
        // A linear congruential generator (D. Knuth, "MMIX").
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % below
    }

    fn letters(&self, form: &str) -> String {
        let letter = || char::from(LETTERS[self.next(LETTERS.len())]);
        form.chars()
            .map(|kind| match kind {
                'a' => letter(),
                'A' => letter().to_ascii_uppercase(),
                '0' => char::from(b'0' + self.next(10) as u8),
                other => other,
            })
            .collect()
    }

    fn add(&self, field: &str, text: String, shown: Shown, in_parts: bool) -> String {
        self.all.borrow_mut().push(Token {
            field: field.into(),
            text: text.clone(),
            shown,
            in_parts,
        });
        text
    }

    /// Returns a token for `field`.
    pub fn of(&self, field: &str) -> String {
        self.add(field, self.letters("Aa0aA0aA"), Shown::Never, true)
    }

    /// Returns a token for `field` of each form that a value may have: letters, digits, both.
    pub fn forms(&self, field: &str) -> Vec<String> {
        let forms = ["aaaaaaaa", "AAAAA00AAAA0AAA", "Aa0aa0aaa", "aa-aaaa-aaaAA0a", "AaAaAaAa"];
        let mut all: Vec<_> =
            forms.map(|form| self.add(field, self.letters(form), Shown::Never, true)).into();
        let digits = ["+0000000000", "000-0000000", "00000.00000"];
        all.extend(digits.map(|form| self.add(field, self.letters(form), Shown::Never, false)));
        all
    }

    /// Makes `text` the token of `field`.
    pub fn given(&self, field: &str, text: &str) -> String {
        self.add(field, text.into(), Shown::Never, false)
    }

    /// Returns a token in small letters for `field`, which reports show by promise.
    pub fn shown(&self, field: &str) -> String {
        self.add(field, self.letters("aa0aa0aa"), Shown::InReports, true)
    }

    /// Panics if a page shows a token of these, in `place`.
    pub fn assert_page_clean(&self, page: &[u8], place: &str) {
        let text = String::from_utf8_lossy(page);
        let is_column = |it: &str| {
            let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
            it.len() >= 8 && it.len().is_multiple_of(4) && it.bytes().all(is_digit)
        };
        let has_token = |it: &str| self.all.borrow().iter().any(|token| it.contains(&token.text));
        // Columns of numbers are in Base64, in which parts of a token may occur by chance.
        let kept: Vec<&str> =
            text.split('"').filter(|it| !is_column(it) || has_token(it)).collect();
        self.assert_clean(kept.join("\"").as_bytes(), true, place);
    }

    /// Panics if `output` shows a token of these, in `place`.
    pub fn assert_clean(&self, output: &[u8], is_report: bool, place: &str) {
        let parts = Parts::of(output);
        let found: Vec<String> = self
            .all
            .borrow()
            .iter()
            .filter(|it| !(is_report && it.shown == Shown::InReports))
            .filter_map(|token| Some(format!("{}: {}", token.field, parts.found(token)?)))
            .collect();
        assert!(found.is_empty(), "{place} shows\n  {}", found.join("\n  "));
    }
}

/// All parts of an output.
pub struct Parts<'o> {
    output: &'o [u8],
    parts: HashSet<&'o [u8]>,
}

impl<'o> Parts<'o> {
    pub fn of(output: &'o [u8]) -> Self {
        Self { output, parts: output.windows(PART).collect() }
    }

    /// Returns the token, or its part, that the output has.
    pub fn found(&self, token: &Token) -> Option<String> {
        let text = token.text.as_bytes();
        let mut parts = text.windows(PART);
        let found = if token.in_parts {
            parts.find(|it| self.parts.contains(it))
        } else {
            let may_be = parts.all(|it| self.parts.contains(it));
            Some(text).filter(|_| may_be && self.output.windows(text.len()).any(|it| it == text))
        };
        found.map(|part| format!("{} of {}", String::from_utf8_lossy(part), token.text))
    }
}
