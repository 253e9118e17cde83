//! `tcpwhy-lab`: lists and runs the cases.

use std::path::PathBuf;
use std::process::ExitCode;

use tcpwhy_lab::labels::Labels;
use tcpwhy_lab::{CASES, CaseResult, LabError, RunOptions, cleanup, find, run};

const USAGE: &str = "\
tcpwhy-lab list
tcpwhy-lab run CASE --out DIR [--seed N] [--rtt 20ms] [--rate 100mbit] [--loss 1%] …
tcpwhy-lab clean";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["list"] => {
            list();
            Ok(())
        }
        ["clean"] => {
            cleanup::clean().iter().for_each(|what| println!("removed {what}"));
            Ok(())
        }
        ["run", case, options @ ..] => run_case(case, options),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    for case in CASES {
        println!("{:<12} {:<30} {}", case.layer, case.name, case.summary);
    }
}

fn run_case(name: &str, words: &[&str]) -> Result<(), LabError> {
    let case = find(name)?;
    let mut options = RunOptions { out: PathBuf::from("."), seed: 1, set: Vec::new() };
    for pair in words.chunks(2) {
        let bad = || LabError::BadValue {
            name: pair[0].to_owned(),
            value: pair.get(1).copied().unwrap_or_default().to_owned(),
            example: "--out DIR --seed 7 --rtt 20ms",
        };
        let (Some(key), Some(value)) = (pair[0].strip_prefix("--"), pair.get(1)) else {
            return Err(bad());
        };
        match key {
            "out" => options.out = PathBuf::from(value),
            "seed" => options.seed = value.parse().map_err(|_| bad())?,
            key => options.set.push((key.to_owned(), (*value).to_owned())),
        }
    }
    cleanup::on_interrupt();
    let result = run(case, &options)?;
    print_result(&result);
    Ok(())
}

fn print_result(result: &CaseResult) {
    println!("{}", result.dir.display());
    for labels in result.faulty.iter().chain([&result.healthy]) {
        print_labels(labels);
    }
}

fn print_labels(labels: &Labels) {
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "  {:<8} {} exchanges, {:.1} ms in all, p50 {:.2} p99 {:.2} max {:.2} ms",
        format!("{:?}", labels.variant).to_lowercase(),
        labels.exchanges,
        ms(labels.wall_ns),
        ms(labels.latency_ns.p50_ns),
        ms(labels.latency_ns.p99_ns),
        ms(labels.latency_ns.max_ns),
    );
    let failed = labels.requests.iter().filter(|r| r.error.is_some()).count();
    if failed > 0 {
        println!("           {failed} requests failed");
    }
    for cause in &labels.causes {
        let lost = cause.lost_ns.map_or("?".to_owned(), |ns| format!("{:.1} ms", ms(ns)));
        println!("           {} lost {lost}: {}", cause.cause, cause.lost_ns_how);
    }
    if let Some(relay) = &labels.stage.relay {
        let time = &relay.timekeeping;
        println!(
            "           relay: {} packets, {} dropped, late p50 {:.3} p99 {:.3} max {:.3} ms{}",
            time.packets,
            relay.dropped(),
            ms(time.late_p50_ns),
            ms(time.late_p99_ns),
            ms(time.late_max_ns),
            if time.realtime { "" } else { ", without real-time scheduling" },
        );
    }
}
