//! Settings of running databases, from their command line and the file that it names.

use std::fs;

use super::program::Program;
use crate::database::{Database, POSTGRESQL, REDIS, lines, redis_arguments};

const FILE_BYTES_MAX: u64 = 4 << 20;

/// Returns the databases among `programs`.
pub fn read(programs: &[Program]) -> Vec<Database> {
    programs.iter().filter_map(database).collect()
}

fn database(program: &Program) -> Option<Database> {
    match program.process.command.as_str() {
        "redis-server" | "valkey-server" => Some(redis(program)),
        "postgres" | "postmaster" => postgresql(program),
        _ => None,
    }
}

fn redis(program: &Program) -> Database {
    let pid = program.process.pid;
    let mut words = program.arguments.iter().skip(1);
    let named = words.next().filter(|word| word.ends_with(".conf")).cloned();
    let text = named.as_ref().and_then(|path| file(pid, path));
    let mut settings = lines(text.as_deref().unwrap_or_default(), &REDIS);
    for (name, value) in redis_arguments(&program.arguments) {
        settings.retain(|it| it.0 != name);
        settings.push((name, value));
    }
    Database { name: "Redis", pid, file: named.filter(|_| text.is_some()), settings }
}

/// Recognises the postmaster: its children have no command line of their own.
fn postgresql(program: &Program) -> Option<Database> {
    let pid = program.process.pid;
    let words = &program.arguments;
    let after = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).cloned()
    };
    let folder = after("-D")?;
    let named = words.iter().find_map(|word| word.strip_prefix("config_file=").map(str::to_owned));
    let path = named.unwrap_or_else(|| format!("{folder}/postgresql.conf"));
    let text = file(pid, &path);
    let own = file(pid, &format!("{folder}/postgresql.auto.conf")).unwrap_or_default();
    let all = format!("{}\n{own}", text.as_deref().unwrap_or_default());
    let settings = lines(&all, &POSTGRESQL);
    Some(Database { name: "PostgreSQL", pid, file: text.map(|_| path), settings })
}

/// Reads the text of a regular file as a process sees it.
fn file(pid: u32, path: &str) -> Option<String> {
    let path = match path.strip_prefix('/') {
        Some(path) => format!("/proc/{pid}/root/{path}"),
        None => format!("/proc/{pid}/cwd/{path}"),
    };
    let is_small = fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= FILE_BYTES_MAX);
    if is_small { fs::read_to_string(path).ok() } else { None }
}
