//! Plain words: what of a path may be shown as the kind of a request. Everything else is a value.
//!
//! Nothing distinguishes a value that is itself an English word from a word. So a part of a path is
//! shown only if no key, number, address or random name has its form:
//! - A word has 4 to 16 letters of one case, the first may be a capital, with a vowel, and each
//!   pair of adjacent letters is [common](PAIRS) in English.
//! - Three letters or fewer cannot hold a value of four bytes; inside of a compound, where they
//!   could be pieces of one, they have to be [listed](SHORT_WORDS).
//! - Words with digits or uncommon pairs are [listed](TERMS); versions are `v1`, `v2beta1`.
//! - A compound has up to [`WORDS_MAX`] words, joined by `-`, `_` or a capital.
//! - Only [listed](EXTENSIONS) endings name a type of file.

use super::listed::List;
use std::ops::Range;

/// Maximum number of words of a compound: `add-to-cart`, `getUserById`. Longer ones are titles.
const WORDS_MAX: usize = 4;
/// Maximum length of a word: `acknowledgements`, letters.
const WORD_MAX: usize = 16;
/// Maximum length of a word that needs no common pairs: a value has four bytes or more.
const SHORT_MAX: usize = 3;
/// Length from which on a word of the letters `a` to `f` is a hexadecimal number.
const HEXADECIMAL_MIN: usize = 8;

/// For each letter from `a` to `z`, the letters that follow it in common pairs: those in 20 or more
/// of the 63,072 English words of four or more small letters in the list `american-english`
/// (SCOWL, package wamerican 2020.12.07). 99 % of these words have only such pairs, and 5 % of
/// random words of ten letters.
const PAIRS: [&[u8]; 26] = [
    b"bcdefghijklmnopqrstuvwxyz",
    b"abcdeijlmnorstuy",
    b"acehikloqrstuy",
    b"abcdefghijlmnoprstuvwy",
    b"abcdefghijklmnopqrstuvwxyz",
    b"aefilorstuy",
    b"abeghilmnorstuwy",
    b"abdefhilmnorstuwy",
    b"abcdefghiklmnopqrstuvxz",
    b"aeiou",
    b"abdefhilmnoprstuwy",
    b"abcdefghiklmnoprstuvwy",
    b"abefilmnoprsuy",
    b"abcdefghijklmnopqrstuvwxyz",
    b"abcdefghijklmnopqrstuvwxyz",
    b"abdefhilmnoprstuwy",
    b"u",
    b"abcdefghijklmnopqrstuvwy",
    b"abcdefghiklmnopqrstuwy",
    b"abcdefghilmnoprstuwyz",
    b"abcdefgiklmnoprstvxz",
    b"aeiouy",
    b"abdefhiklmnoprst",
    b"acehioptuxy",
    b"abcdefghilmnoprstuw",
    b"aeiloyz",
];

/// Words of three letters or fewer that compounds are made of.
static SHORT_WORDS: List = List::new(
    "\
     a acl add all and any api app as at ban bin bot by cgi cms crm css csv db del dev dir dns \
     doc end env faq for get go has id ids img in inf ip is jar job js key lib log map me my new \
     no not of off old on one or out pay pdf put raw rpc rss rum run set sql src sso tag the tmp \
     to top ui up uri url web wp xml",
);

/// Terms of the field that are no English words.
static TERMS: List = List::new(
    "\
     base64 ec2 firmware graphql grpc h2c healthcheck healthz html http https i18n ipv4 ipv6 \
     jquery json jsonrpc jwks jwt k8s kafka l10n livez md5 mqtt mysql oauth2 openid pprof psql \
     readyz s3 saml2 sha1 sha256 sms smtp statusz utf8 web3 webhook webhooks x509 xhtml xmlrpc \
     yaml",
);

/// Endings that name a type of file.
static EXTENSIONS: List = List::new(
    "\
     7z asp aspx avif bin bmp br bz2 cgi css csv dat deb do doc docx eot exe gif gz htm html ico \
     iso jar jpeg jpg js json jsp less log m3u8 m4s map md min mjs mp3 mp4 mpd ogg otf parquet \
     pdf php png ppt rpm rss svg tar tgz tif ts ttf txt wasm webm webp woff woff2 xls xml yaml \
     zip",
);

/// Returns whether a part of a path, between two slashes, is shown.
pub(crate) fn is_plain(part: &[u8]) -> bool {
    matches!(part, b"" | b"." | b"..") || are_words(&part[..ends_at(part)])
}

/// Returns where the endings of a file's name begin in `part`; its length if there are none.
pub(crate) fn ends_at(part: &[u8]) -> usize {
    let mut end = part.len();
    while let Some(dot) = memchr::memrchr(b'.', &part[..end]).filter(|&dot| dot > 0)
        && EXTENSIONS.has(&part[dot + 1..end])
    {
        end = dot;
    }
    end
}

/// Returns whether `stem`, a part of a path without its ending, is a word or a compound.
fn are_words(stem: &[u8]) -> bool {
    let is_alone = words(stem).nth(1).is_none();
    let mut at = stem.len() - without_mark(stem).len();
    let mut count = 0;
    for word in words(stem) {
        // One separator stands between two words, if any.
        let between = &stem[at..word.start];
        let is_joined = matches!((count, between), (0, []) | (1.., [] | [b'-' | b'_']));
        if !is_joined || !is_word(&stem[word.clone()], is_alone) {
            return false;
        }
        (at, count) = (word.end, count + 1);
    }
    at == stem.len() && (1..=WORDS_MAX).contains(&count)
}

/// Returns `stem` without a mark of hidden or internal names at its beginning (`_search`,
/// `.well-known`).
fn without_mark(stem: &[u8]) -> &[u8] {
    stem.strip_prefix(b"_").or(stem.strip_prefix(b".")).unwrap_or(stem)
}

/// Returns the ranges of the words of a compound: runs of letters and digits, which end before a
/// capital that follows a small letter.
pub(crate) fn words(stem: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + stem[at..].iter().position(u8::is_ascii_alphanumeric)?;
        let pairs = stem[begin..].windows(2);
        let ends = |pair: &[u8]| {
            !pair[1].is_ascii_alphanumeric()
                || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
        };
        let length = pairs.into_iter().position(ends).map_or(stem.len() - begin, |it| it + 1);
        at = begin + length;
        Some(begin..at)
    })
}

fn is_word(word: &[u8], is_alone: bool) -> bool {
    if is_listed(word) {
        return true;
    }
    let rest = &word[1..];
    let has_one_case = rest.iter().all(u8::is_ascii_lowercase) && word[0].is_ascii_alphabetic();
    if word.len() <= SHORT_MAX {
        return is_alone && word.iter().all(u8::is_ascii_alphabetic);
    }
    has_one_case && word.len() <= WORD_MAX && is_common(word)
}

/// Returns whether a word is shown because of a list, not because of its letters.
pub(crate) fn is_listed(word: &[u8]) -> bool {
    TERMS.has(word) || SHORT_WORDS.has(word) || is_version(word)
}

/// Returns whether a word of letters has a vowel and only common pairs, and is no hexadecimal
/// number.
fn is_common(word: &[u8]) -> bool {
    let letter = |byte: &u8| byte.to_ascii_lowercase();
    let has_vowel = word.iter().any(|byte| b"aeiouy".contains(&letter(byte)));
    let is_number = word.len() >= HEXADECIMAL_MIN && word.iter().all(u8::is_ascii_hexdigit);
    has_vowel
        && !is_number
        && word.windows(2).all(|pair| {
            let followers = PAIRS.get(usize::from(letter(&pair[0]).wrapping_sub(b'a')));
            followers.is_some_and(|followers| followers.contains(&letter(&pair[1])))
        })
}

/// Returns whether a word is a version of an interface: `v1`, `v12`, `v2beta1`.
fn is_version(word: &[u8]) -> bool {
    let Some(rest) = word.strip_prefix(b"v").or(word.strip_prefix(b"V")) else { return false };
    let digits = |text: &[u8]| {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (1..=2).contains(&count).then_some(count)
    };
    let Some(count) = digits(rest) else { return false };
    let stage = &rest[count..];
    let after = stage.strip_prefix(b"alpha").or(stage.strip_prefix(b"beta"));
    stage.is_empty() || after.is_some_and(|after| digits(after) == Some(after.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_interfaces_are_plain() {
        for part in [
            "",
            "a",
            "api",
            "v1",
            "v1beta1",
            "users",
            "orders",
            "Login",
            "getUserById",
            "user_id",
            "add-to-cart",
            "_search",
            ".well-known",
            "index.html",
            "app.min.js",
            "data.tar.gz",
            "graphql",
            "oauth2",
            "healthz",
            "authentication",
            "recommendations",
            "favicon.ico",
            "OrderService",
            "WEB-INF",
            "robots.txt",
            "wp-admin",
            "subscriptions",
            "checkout",
        ] {
            assert!(is_plain(part.as_bytes()), "{part}");
        }
    }

    #[test]
    fn keys_numbers_names_and_titles_are_values() {
        for part in [
            "7",
            "Tr0ub4dor",
            "AKIAIOSFODNN7EXAMPLE",
            "AKIAIOSFODNNEXAMPLE",
            "sk-proj-abcdef",
            "+4915112345678",
            "555-1234",
            "alice%40example.com",
            "alice@example.com",
            "17.5200",
            "5200",
            "hunter2",
            "deadbeef",
            "v123",
            "v1.2.3",
            "xkqzvwjp",
            "qwrtzpsd",
            "ab-cd-ef-gh",
            "abCdEfGh",
            "dGhpc2lzYXNl",
            "how-to-make-a-good-soup",
            "example.com",
            "a--b",
            "-a",
            "a-",
            "~alice",
            "user:alice",
            "a,b",
            "caf\u{e9}",
            "pneumonoultramicroscopic",
            "x.secret",
            "ALLCAPS",
            "mixedCAPS",
        ] {
            assert!(!is_plain(part.as_bytes()), "{part}");
        }
    }
}
