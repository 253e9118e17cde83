//! The language of the command: by `--lang`, else by the locale; JSON in English in any case.

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
