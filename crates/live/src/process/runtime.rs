//! The runtime of a process, as far as its command line, the names of its threads and its program show it.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::Read;

/// Size of the beginning of a program in which its notes are searched, bytes: linkers write them behind the
/// program headers.
const NOTES_BYTES: u64 = 8192;

/// What is known of one process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    pid: u32,
    parent: u32,
    /// The words of the command line. A program that gives itself a title has that as the only word.
    words: Vec<String>,
}

/// The processes of servers, read when the first of them is asked for.
#[derive(Debug, Default)]
pub struct Servers(OnceCell<Vec<Known>>);

impl Servers {
    /// Returns the runtime of a process in the words of its users, such as `gunicorn, 2 workers`; `None` if it
    /// does not show one.
    pub fn runtime(&self, pid: u32) -> Option<String> {
        let own = Known::read(pid)?;
        if let Some(server) = Server::of(&own) {
            let read =
                || super::all().filter_map(Known::read).filter(|it| Server::of(it).is_some());
            return Some(server.described(&own, self.0.get_or_init(|| read().collect())));
        }
        let runtime = virtual_machine(&threads(pid)).or_else(|| program(pid));
        runtime.map(str::to_owned)
    }
}

impl Known {
    fn read(pid: u32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, parent: parent(&stat)?, words: words(&line) })
    }
}

/// Returns the words of `/proc/PID/cmdline`.
fn words(line: &[u8]) -> Vec<String> {
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Returns the number of the parent in `/proc/PID/stat` (proc(5)): the second field behind the command, which
/// may have parentheses of its own.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A server of several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Nginx,
    PhpFpm,
    Gunicorn,
    Uwsgi,
    Puma,
    Apache,
    Postgres,
}

impl Server {
    /// Returns the server that a process belongs to, by its title or the script that it runs.
    fn of(process: &Known) -> Option<Self> {
        let title = process.words.first()?;
        let titled = [
            ("nginx: ", Self::Nginx),
            ("php-fpm: ", Self::PhpFpm),
            ("gunicorn: ", Self::Gunicorn),
            ("puma: ", Self::Puma),
            ("puma ", Self::Puma),
            ("postgres: ", Self::Postgres),
        ];
        if let Some((_, server)) = titled.iter().find(|(begin, _)| title.starts_with(begin)) {
            return Some(*server);
        }
        let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
        // An interpreter has the script behind it, without options before it.
        let script = process.words.get(1).map(|word| name(word));
        match (name(title).as_str(), script.as_deref()) {
            ("gunicorn", _) | (_, Some("gunicorn")) => Some(Self::Gunicorn),
            ("uwsgi", _) => Some(Self::Uwsgi),
            ("apache2" | "httpd", _) => Some(Self::Apache),
            ("postgres", _) => Some(Self::Postgres),
            _ => None,
        }
    }

    /// Returns whether a process is the one that starts the others, by its title.
    fn is_master(process: &Known) -> bool {
        let title = process.words.first().map_or("", String::as_str);
        title.starts_with("nginx: master")
            || title.starts_with("php-fpm: master")
            || title.starts_with("gunicorn: master")
            || (title.starts_with("puma ") && !title.starts_with("puma: "))
    }

    /// Returns the name of the server and the number of its workers: those of the `servers` of its kind that
    /// have the same parent as `own`, or `own` as their parent.
    fn described(self, own: &Known, servers: &[Known]) -> String {
        let name = match self {
            Self::Nginx => "nginx",
            Self::PhpFpm => "PHP-FPM",
            Self::Gunicorn => "gunicorn",
            Self::Uwsgi => "uWSGI",
            Self::Puma => "Puma",
            Self::Apache => "Apache",
            // A connection has a process of its own; the others are no workers for its requests.
            Self::Postgres => return "PostgreSQL".to_owned(),
        };
        // Each process of Apache may have threads, which are its workers.
        let worker = if self == Self::Apache { "process" } else { "worker" };
        let plural = if self == Self::Apache { "processes" } else { "workers" };
        let kin: Vec<&Known> = servers.iter().filter(|it| Self::of(it) == Some(self)).collect();
        let is_child = kin.iter().any(|it| it.pid == own.parent);
        let master = if is_child { own.parent } else { own.pid };
        let pool =
            |it: &Known| it.words.first().filter(|it| it.starts_with("php-fpm: pool ")).cloned();
        let is_worker = |it: &&&Known| {
            let is_of_pool = !is_child || pool(it) == pool(own);
            it.parent == master && it.pid != master && !Self::is_helper(it) && is_of_pool
        };
        match kin.iter().filter(is_worker).count() {
            0 if Self::is_master(own) || self == Self::Apache => name.to_owned(),
            0 | 1 => format!("{name}, 1 {worker}"),
            count => format!("{name}, {count} {plural}"),
        }
    }

    /// Returns whether a process of a server does something else than to answer requests.
    fn is_helper(process: &Known) -> bool {
        process.words.first().is_some_and(|title| title.starts_with("nginx: cache "))
    }
}

/// Returns the names of the threads of a process, of which the kernel keeps 15 bytes each.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

/// Returns the virtual machine whose threads have these names. HotSpot names its own and those of its
/// collectors (`os::set_native_thread_name`), .NET those of its pool.
fn virtual_machine(threads: &[String]) -> Option<&'static str> {
    let has = |begin: &str| threads.iter().any(|name| name.starts_with(begin));
    if has("VM Thread") {
        return Some(match () {
            () if has("ZDirector") || has("ZDriver") => "Java, ZGC",
            () if has("Shenandoah") => "Java, Shenandoah GC",
            () if has("G1 ") => "Java, G1 GC",
            () if has("GC Thread") => "Java, Parallel GC",
            () => "Java, Serial GC",
        });
    }
    if has(".NET ") { Some(".NET") } else { None }
}

/// Returns the runtime that is in the program itself: Node.js by its name, Go by the note with the build's
/// number that its linker writes.
fn program(pid: u32) -> Option<&'static str> {
    let path = format!("/proc/{pid}/exe");
    let name = fs::read_link(&path).ok();
    if name
        .as_deref()
        .and_then(|it| it.file_name())
        .is_some_and(|it| it == "node" || it == "nodejs")
    {
        return Some("Node.js, one event loop");
    }
    let mut begin = Vec::new();
    File::open(&path).ok()?.take(NOTES_BYTES).read_to_end(&mut begin).ok()?;
    has_note_of_go(&begin).then_some("Go")
}

/// Returns whether a program begins with an ELF note of the owner `Go` and type 4: name size, size of the
/// description, type, name (elf(5), "Notes").
fn has_note_of_go(begin: &[u8]) -> bool {
    begin.starts_with(b"\x7fELF")
        && begin.windows(16).any(|it| {
            it[..4] == [4, 0, 0, 0] && it[6..8] == [0, 0] && it[8..] == *b"\x04\0\0\0Go\0\0"
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, line: &str) -> Known {
        Known { pid, parent, words: words(line.replace('|', "\0").as_bytes()) }
    }

    fn described(own: &Known, all: &[Known]) -> Option<String> {
        Server::of(own).map(|it| it.described(own, all))
    }

    #[test]
    fn workers_are_counted_from_a_worker_and_from_their_master() {
        let nginx = [
            process(10, 1, "nginx: master process /usr/sbin/nginx -g daemon on;"),
            process(11, 10, "nginx: worker process"),
            process(12, 10, "nginx: worker process"),
            process(13, 10, "nginx: cache manager process"),
            // Of another nginx.
            process(20, 1, "nginx: master process /opt/nginx"),
            process(21, 20, "nginx: worker process"),
        ];
        assert_eq!(described(&nginx[0], &nginx).as_deref(), Some("nginx, 2 workers"));
        assert_eq!(described(&nginx[2], &nginx).as_deref(), Some("nginx, 2 workers"));
        assert_eq!(described(&nginx[5], &nginx).as_deref(), Some("nginx, 1 worker"));
        assert_eq!(described(&nginx[4], &nginx[4..5]).as_deref(), Some("nginx"));
    }

    #[test]
    fn a_script_behind_its_interpreter_is_the_server() {
        let line = "/usr/bin/python3|/usr/bin/gunicorn|--workers|3|app:app";
        let gunicorn: Vec<_> = [(7, 1), (8, 7), (9, 7), (10, 7)]
            .map(|(pid, parent)| process(pid, parent, line))
            .into();
        for own in &gunicorn {
            assert_eq!(described(own, &gunicorn).as_deref(), Some("gunicorn, 3 workers"));
        }
        assert_eq!(described(&process(7, 1, "/usr/bin/python3|app.py"), &gunicorn), None);
        assert_eq!(described(&process(7, 1, ""), &gunicorn), None);
    }

    #[test]
    fn pools_of_php_are_counted_apart_and_backends_of_postgresql_are_no_workers() {
        let all = [
            process(3, 1, "php-fpm: master process (/etc/php/fpm.conf)"),
            process(4, 3, "php-fpm: pool www"),
            process(5, 3, "php-fpm: pool www"),
            process(6, 3, "php-fpm: pool shop"),
            process(7, 1, "/usr/lib/postgresql/15/bin/postgres|-D|/data"),
            process(8, 7, "postgres: shop shop 10.0.0.1(40000) SELECT"),
        ];
        assert_eq!(described(&all[1], &all).as_deref(), Some("PHP-FPM, 2 workers"));
        assert_eq!(described(&all[3], &all).as_deref(), Some("PHP-FPM, 1 worker"));
        assert_eq!(described(&all[5], &all).as_deref(), Some("PostgreSQL"));
    }

    #[test]
    fn virtual_machines_are_known_by_their_threads() {
        let of = |names: &[&str]| {
            virtual_machine(&names.iter().map(|&it| it.into()).collect::<Vec<_>>())
        };
        assert_eq!(
            of(&["java", "VM Thread", "GC Thread#0", "G1 Main Marker"]),
            Some("Java, G1 GC")
        );
        assert_eq!(of(&["java", "VM Thread", "GC Thread#0"]), Some("Java, Parallel GC"));
        assert_eq!(of(&["java", "VM Thread"]), Some("Java, Serial GC"));
        assert_eq!(of(&["java", "VM Thread", "ZDirector"]), Some("Java, ZGC"));
        assert_eq!(of(&["dotnet", ".NET ThreadPool"]), Some(".NET"));
        assert_eq!(of(&["node", "python3"]), None);
    }

    #[test]
    fn programs_of_go_have_a_note() {
        let mut program = b"\x7fELF".to_vec();
        program.resize(0x100, 0);
        assert!(!has_note_of_go(&program));
        program.extend(b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0abc");
        assert!(has_note_of_go(&program));
        assert!(!has_note_of_go(&program[4..]));
    }

    #[test]
    fn the_parent_stands_behind_a_command_with_parentheses() {
        assert_eq!(parent("42 (a) (b) S 7 42 42 0 -1"), Some(7));
        assert_eq!(parent("42 (a"), None);
        assert_eq!(Servers::default().runtime(std::process::id()), None);
    }
}
