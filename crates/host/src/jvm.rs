//! Flags of a running JVM that change how it talks to the network.

use std::collections::BTreeMap;

use crate::hsperfdata::Counters;

/// A running JVM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jvm {
    /// The number of its process.
    pub pid: u32,
    /// System properties (`-DNAME=VALUE`), the last one counts.
    pub properties: BTreeMap<String, String>,
    /// Main class or archive.
    pub main: String,
    /// What it collected during the sample; `None` where it publishes no counters.
    pub collected: Option<Counters>,
}

/// Reads the command line and the variables that add flags. The launcher takes `JDK_JAVA_OPTIONS`
/// before the command line, the JVM `JAVA_TOOL_OPTIONS` before and `_JAVA_OPTIONS` after it.
pub fn parse(pid: u32, arguments: &[String], environment: &[(String, String)]) -> Jvm {
    let variable = |name: &str| {
        let text = environment.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str());
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut own = arguments.iter().skip(1).peekable();
    let mut flags = [variable("JAVA_TOOL_OPTIONS"), variable("JDK_JAVA_OPTIONS")].concat();
    let mut main = String::new();
    while let Some(word) = own.next() {
        match word.as_str() {
            "-cp" | "-classpath" | "--class-path" | "-p" | "--module-path" => {
                own.next();
            }
            "-jar" | "-m" | "--module" => {
                main = own.next().cloned().unwrap_or_default();
                break;
            }
            flag if flag.starts_with('-') || flag.starts_with('@') => flags.push(word.clone()),
            _ => {
                main = word.clone();
                break;
            }
        }
    }
    flags.extend(variable("_JAVA_OPTIONS"));
    let properties = flags.iter().filter_map(|flag| {
        let flag = flag.strip_prefix("-D")?;
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        Some((name.to_owned(), value.to_owned()))
    });
    Jvm { pid, properties: properties.collect(), main, collected: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_end_where_the_program_begins() {
        let words = [
            "java",
            "-Xmx1g",
            "-cp",
            "-Dno=1",
            "-Djava.net.preferIPv4Stack=true",
            "App",
            "-Dsun.net.httpserver.nodelay=true",
        ];
        let words = words.map(str::to_owned);
        let extra = [("_JAVA_OPTIONS".to_owned(), "-Dnetworkaddress.cache.ttl=60".to_owned())];
        let jvm = parse(7, &words, &extra);
        assert_eq!(jvm.main, "App");
        assert_eq!(jvm.properties.len(), 2);
        assert_eq!(jvm.properties["java.net.preferIPv4Stack"], "true");
        assert_eq!(jvm.properties["networkaddress.cache.ttl"], "60");
    }
}
