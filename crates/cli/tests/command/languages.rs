//! The language of the command: by `--lang`, else by the locale; JSON in English in any case.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/captures/nginx_nodelay_off.pcap");

/// Runs `tcpwhy` with a locale.
fn run(arguments: &[&str], locale: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LANG", "TERM"] {
        command.env_remove(name);
    }
    command.args(arguments).envs(locale.iter().copied()).stdin(Stdio::null());
    command.output().expect("tcpwhy runs")
}

fn out(arguments: &[&str], locale: &[(&str, &str)]) -> String {
    String::from_utf8_lossy(&run(arguments, locale).stdout).into_owned()
}

fn is_chinese(text: &str) -> bool {
    text.contains("现象") && text.contains("时间去向")
}

#[test]
fn the_locale_chooses_the_language_and_the_option_decides() {
    let zh = ("LANG", "zh_CN.UTF-8");
    for (locale, chinese) in [
        (&[][..], false),
        (&[zh][..], true),
        (&[("LC_ALL", "zh_TW.UTF-8")], true),
        (&[("LC_MESSAGES", "zh_CN.UTF-8"), ("LANG", "en_US.UTF-8")], true),
        (&[("LC_ALL", "en_US.UTF-8"), zh], false),
        (&[("LC_ALL", "C"), zh], false),
        (&[("LANG", "de_DE.UTF-8")], false),
        // A locale that is not UTF-8 cannot show Chinese: the text is English.
        (&[("LANG", "zh_CN.GB18030")], false),
    ] {
        assert_eq!(is_chinese(&out(&[CAPTURE], locale)), chinese, "{locale:?}");
    }
    assert!(is_chinese(&out(&[CAPTURE, "--lang", "zh"], &[("LC_ALL", "C")])));
    assert!(!is_chinese(&out(&[CAPTURE, "--lang=en"], &[zh])));
}

#[test]
fn json_is_the_same_in_each_language() {
    let json = |lang| out(&[CAPTURE, "--json", "--lang", lang], &[]);
    assert_eq!(json("zh"), json("en"));
}

#[test]
fn drawings_manuals_logs_and_comparisons_are_chinese() {
    let zh = |arguments: &[&str]| out(&[arguments, &["--lang", "zh"]].concat(), &[]);
    assert!(zh(&[CAPTURE, "--connection", "1"]).contains("交互 1："));
    assert!(zh(&[CAPTURE, "--why", "125"]).contains("服务器在帧"));
    assert!(zh(&["explain", "nagle_delayed_ack"]).contains("发生了什么"));
    assert!(zh(&["help", "nagle_delayed_ack"]).contains("发生了什么"));
    assert!(zh(&["compare", CAPTURE, CAPTURE]).contains("没有值得注意的变化"));
}

#[test]
fn help_is_chinese_and_an_unknown_language_is_an_error() {
    assert!(out(&["--help", "--lang", "zh"], &[]).contains("用法："));
    assert!(out(&["compare", "--help"], &[("LANG", "zh_CN.UTF-8")]).contains("改动之前的运行"));
    assert!(out(&["help", "report", "--lang", "zh"], &[]).contains("页面写到哪里"));
    let wrong = run(&[CAPTURE, "--lang", "xx"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("zh"), "{wrong:?}");
}

/// Returns the literals of text in the sources of what `tcpwhy` runs, each with `{}` in the places of values.
fn literals(of: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let folders = ["cli", "core", "host", "live", "privileged", "probe", "treat", "browser"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut rest: Vec<PathBuf> = folders.map(|it| root.join(it).join("src")).to_vec();
    let mut all = BTreeSet::new();
    while let Some(path) = rest.pop() {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "bin") {
            let entries = fs::read_dir(&path).expect("a folder of sources");
            rest.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            all.extend(of(&text).iter().map(|it| places_alone(it)));
        }
    }
    all
}

/// Returns the literals of a source, with their lines joined as the compiler joins them.
fn strings(source: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut rest = source;
    while let Some((_, after)) = rest.split_once('"') {
        let mut string = String::new();
        let mut letters = after.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => match letters.next() {
                    Some('\n') => letters = letters.as_str().trim_start().chars(),
                    Some(escaped) => string.push(escaped),
                    None => break,
                },
                letter => string.push(letter),
            }
        }
        strings.push(string);
        rest = letters.as_str();
    }
    strings
}

/// Returns the messages of the errors of a source.
fn errors(source: &str) -> Vec<String> {
    let attributes = source.split("#[error(").skip(1).map(str::trim_start);
    let messages = attributes.filter(|it| it.starts_with('"'));
    messages.filter_map(|it| strings(it).into_iter().next()).collect()
}

/// Returns a template with `{}` in each place of a value.
fn places_alone(template: &str) -> String {
    let mut parts = template.split('{');
    let mut alone = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        alone = alone + "{}" + part.split_once('}').map_or(part, |(_, fixed)| fixed);
    }
    alone
}

/// Returns the sections of the Chinese errors: heading and English templates.
fn chinese_errors() -> Vec<(&'static str, Vec<String>)> {
    const TABLE: &str = include_str!("../../../core/src/findings/zh/errors.md");
    let rows = |section: &'static str| {
        let rows =
            section.lines().filter_map(|it| Some(it.strip_prefix("| ")?.split_once(" | ")?.0));
        let rows = rows.filter(|it| *it != "English");
        rows.map(|row| places_alone(&row.replace("\\|", "|"))).collect()
    };
    let sections = TABLE.split("\n## ").skip(1);
    sections.map(|it| (it.lines().next().unwrap_or_default(), rows(it))).collect()
}

#[test]
fn each_error_has_a_row_in_chinese() {
    let known: BTreeSet<String> = chinese_errors().into_iter().flat_map(|(_, rows)| rows).collect();
    let has_words = |it: &String| it.chars().filter(char::is_ascii_alphabetic).count() > 1;
    let messages = literals(errors);
    assert!(messages.len() > 150, "{} errors are found", messages.len());
    let missing: Vec<&String> =
        messages.iter().filter(|it| has_words(it) && !known.contains(*it)).collect();
    assert!(missing.is_empty(), "zh/errors.md lacks {missing:#?}");
}

#[test]
fn no_row_of_chinese_errors_outlives_its_error() {
    let texts: String = literals(strings).into_iter().map(|it| it + "\n").collect();
    // Messages of the argument parser and of the operating system are not in the sources.
    let ours = |heading: &str| !["命令行", "操作系统"].contains(&heading);
    for (heading, rows) in chinese_errors() {
        for row in rows.iter().filter(|_| ours(heading)) {
            // A value may be a part of the sentence that has a fixed beginning, as in `http://HOST`.
            let longest = row.split("{}").max_by_key(|fixed| fixed.len()).unwrap_or(row);
            assert!(texts.contains(longest), "{heading}: nothing says {row}");
        }
    }
}

#[test]
fn errors_and_misuse_are_chinese() {
    let zh = ("LANG", "zh_CN.UTF-8");
    let said = |arguments: &[&str]| {
        let run = run(arguments, &[zh]);
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    for arguments in [
        &["/none/such.pcap"][..],
        &[readme],
        &["expain"],
        &[CAPTURE, "--conection", "1"],
        &[CAPTURE, "--connection", "4000"],
        &[CAPTURE, "--filter", "hst 10.0.0.1"],
        &[CAPTURE, "--why", "999999"],
        &[CAPTURE, "--min-share", "200"],
        &[CAPTURE, "--lang"],
        &["anonymize", CAPTURE],
        &["help", "nothing-of-the-kind"],
        &["explain", "--cause", "nagel_delayed_ack"],
    ] {
        let said = said(arguments);
        for line in said.lines().filter(|it| it.contains(' ') && !it.starts_with("  ")) {
            let is_chinese = line.contains(|it| ('\u{4e00}'..='\u{9fff}').contains(&it));
            assert!(is_chinese, "{arguments:?}: {line}");
        }
    }
}
