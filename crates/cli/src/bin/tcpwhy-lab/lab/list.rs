//! `tcpwhy lab list`: the cases by layer, each with its healthy twin.

use serde_json::{Value, json};
use tcpwhy_core::report::{Look, Page, Paint, left};
use tcpwhy_lab::case::drawn;
use tcpwhy_lab::describe::fill;
use tcpwhy_lab::params::{Params, option};
use tcpwhy_lab::{CASES, Case, Class, Layer};

/// From this many columns on, a case and its twin share a line.
const ONE_LINE: usize = 120;

/// Returns a line for each case, or two lines on a narrow terminal.
pub fn text(look: &Look) -> String {
    let mut page = Page::new(look);
    page.paragraph(None, "what goes wrong, and → what its healthy twin does instead", 0);
    let columns = CASES.iter().map(|case| case.name.len()).max().unwrap_or(0) + 2;
    for layer in Layer::ALL {
        let mut cases = CASES.iter().filter(|case| case.layer == layer).peekable();
        if cases.peek().is_some() {
            page.gap();
            page.line(&look.paint(Paint::Bold, layer.id()));
        }
        for case in cases {
            let twin = case.knob.map(|knob| {
                let params = drawn(case, 1);
                format!("→ {}", fill(knob.healthy, &params))
            });
            let name = left(case.name, columns);
            match twin {
                Some(twin) if look.width >= ONE_LINE => {
                    page.hanging(&name, &format!("{}  {twin}", case.summary));
                }
                twin => {
                    page.hanging(&name, case.summary);
                    twin.iter().for_each(|twin| page.hanging(&left("", columns), twin));
                }
            }
        }
    }
    page.gap();
    page.paragraph(
        None,
        "`sudo tcpwhy lab run CASE` makes one happen, names it, and repairs it",
        0,
    );
    page.finish()
}

/// Describes one case in detail.
pub fn one(case: &Case, look: &Look) -> String {
    let mut page = Page::new(look);
    let params = drawn(case, 1);
    page.line(&format!("{}   {}", look.paint(Paint::Bold, case.name), case.layer.id()));
    page.paragraph(None, case.summary, 2);
    page.gap();
    if let Some(knob) = case.knob {
        page.labelled("where", knob.at);
        page.labelled("fault", &fill(knob.faulty, &params));
        page.labelled("fix", &fill(knob.healthy, &params));
        for command in super::treated::commands(case) {
            page.command("treat", &command);
        }
        page.gap();
    }
    page.line(&look.paint(Paint::Bold, "parameters, as seed 1 draws them"));
    for (name, value) in params.iter() {
        let (name, unit) = option(name);
        page.line(&format!("  --{name} {}", unit.show(value)));
    }
    page.finish()
}

/// Returns all cases as JSON.
pub fn json() -> Value {
    CASES.iter().map(describe).collect()
}

/// Returns a case as JSON, with the parameters that seed 1 draws.
pub fn describe(case: &Case) -> Value {
    let params = drawn(case, 1);
    json!({
        "case": case.name,
        "layer": case.layer,
        "class": case.class,
        "summary": case.summary,
        "fix": fix(case, &params),
        "treat": super::treated::commands(case),
        "parameters": params.iter().map(|(name, value)| {
            let (option, unit) = option(name);
            json!({ "name": name, "option": format!("--{option}"), "example": unit.show(value) })
        }).collect::<Value>(),
    })
}

/// Returns the setting that differs between the case and its healthy twin; `null` for a look-alike.
pub fn fix(case: &Case, params: &Params) -> Value {
    match case.knob {
        Some(knob) if case.class != Class::None => json!({
            "where": knob.at,
            "before": fill(knob.faulty, params),
            "after": fill(knob.healthy, params),
        }),
        _ => Value::Null,
    }
}
