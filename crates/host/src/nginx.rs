//! The configuration of a running nginx: <https://nginx.org/en/docs/ngx_core_module.html>,
//! <https://nginx.org/en/docs/http/ngx_http_core_module.html>. A directive of a block applies to
//! the blocks inside it, unless they have their own.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// A directive, with the block that it opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The name of the directive.
    pub name: String,
    /// The parameters of the directive, without quotes.
    pub arguments: Vec<String>,
    /// The file that has it.
    pub file: PathBuf,
    /// Line in that file, from 1.
    pub line: usize,
    /// Directives in its block.
    pub block: Vec<Directive>,
}

impl Directive {
    /// Returns the position as `FILE:LINE`.
    pub fn location(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// Returns the directive as in the file, without the semicolon.
    pub fn text(&self) -> String {
        std::iter::once(&self.name).chain(&self.arguments).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// A running nginx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nginx {
    /// The master's number.
    pub pid: u32,
    /// The main configuration file.
    pub config: PathBuf,
    /// The configuration on disk.
    pub directives: Vec<Directive>,
    /// A file that was changed after the master last read its configuration.
    pub changed_since: Option<PathBuf>,
    /// Reason why the configuration, or a part of it, was not read.
    pub problem: Option<String>,
    /// The command that makes the master read its configuration again.
    pub reload: String,
}

/// Files included in a file, at most; and how deep.
const FILES_MAX: usize = 512;
const DEPTH_MAX: usize = 16;

/// Reads files for the parser: the text of a path, and the paths that a pattern matches.
pub trait Files {
    /// Reads the text of a regular file.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn text(&mut self, path: &Path) -> Result<String, String>;
    /// Returns the files that match the pattern of an include, sorted.
    fn matching(&mut self, pattern: &Path) -> Vec<PathBuf>;
}

/// Parses the configuration in `path` with what it includes. The second value says what could not
/// be read.
pub fn parse(path: &Path, files: &mut dyn Files) -> (Vec<Directive>, Option<String>) {
    let mut parser = Parser { files, left: FILES_MAX, problem: None, prefix: parent(path) };
    let directives = parser.file(path, 0);
    (directives, parser.problem)
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

struct Parser<'a> {
    files: &'a mut dyn Files,
    left: usize,
    problem: Option<String>,
    /// Included files are relative to the main file's directory.
    prefix: PathBuf,
}

impl Parser<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Vec<Directive> {
        if self.left == 0 || depth > DEPTH_MAX {
            self.problem.get_or_insert_with(|| format!("{}: too many includes", path.display()));
            return Vec::new();
        }
        self.left -= 1;
        match self.files.text(path) {
            Ok(text) => {
                let words = words(&text);
                let mut at = 0;
                self.block(path, &words, &mut at, depth)
            }
            Err(why) => {
                self.problem.get_or_insert_with(|| format!("{}: {why}", path.display()));
                Vec::new()
            }
        }
    }

    fn block(
        &mut self,
        file: &Path,
        words: &[Word],
        at: &mut usize,
        depth: usize,
    ) -> Vec<Directive> {
        let mut found = Vec::new();
        let mut pending: Vec<&Word> = Vec::new();
        while let Some(word) = words.get(*at) {
            *at += 1;
            match word.kind {
                Kind::Text => pending.push(word),
                Kind::Close => break,
                Kind::Open | Kind::End => {
                    let block = if word.kind == Kind::Open && depth < DEPTH_MAX {
                        self.block(file, words, at, depth + 1)
                    } else {
                        Vec::new()
                    };
                    let Some((name, arguments)) = pending.split_first() else { continue };
                    let directive = Directive {
                        name: name.text.clone(),
                        arguments: arguments.iter().map(|word| word.text.clone()).collect(),
                        file: file.to_owned(),
                        line: name.line,
                        block,
                    };
                    pending.clear();
                    match (directive.name.as_str(), directive.arguments.first()) {
                        ("include", Some(pattern)) => {
                            let pattern = self.prefix.join(pattern);
                            for path in self.files.matching(&pattern) {
                                found.extend(self.file(&path, depth + 1));
                            }
                        }
                        _ => found.push(directive),
                    }
                }
            }
        }
        found
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    End,
    Open,
    Close,
}

struct Word {
    kind: Kind,
    text: String,
    line: usize,
}

/// Splits a file into words and punctuation. A comment begins at the begin of a word.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => line += 1,
            char if char.is_whitespace() => {}
            '#' => while chars.next_if(|&char| char != '\n').is_some() {},
            ';' => words.push(Word { kind: Kind::End, text: String::new(), line }),
            '{' => words.push(Word { kind: Kind::Open, text: String::new(), line }),
            '}' => words.push(Word { kind: Kind::Close, text: String::new(), line }),
            quote @ ('"' | '\'') => {
                let (start, mut text) = (line, String::new());
                while let Some(char) = chars.next() {
                    match char {
                        '\\' => text.extend(chars.next()),
                        char if char == quote => break,
                        char => text.push(char),
                    }
                    line += usize::from(char == '\n');
                }
                words.push(Word { kind: Kind::Text, text, line: start });
            }
            first => {
                let mut text = String::from(first);
                // `${name}` is part of a word.
                while let Some(char) = chars.next_if(|&char| {
                    !char.is_whitespace()
                        && !matches!(char, ';' | '}')
                        && (char != '{' || text.ends_with('$'))
                        || char == '}' && text.contains("${")
                }) {
                    text.push(char);
                }
                words.push(Word { kind: Kind::Text, text, line });
            }
        }
    }
    words
}

/// A `listen` of a server block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen<'a> {
    /// The address; `None` is any.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The value of `backlog=`.
    pub backlog: Option<u64>,
    /// The directive.
    pub directive: &'a Directive,
}

impl Listen<'_> {
    fn takes(&self, end: SocketAddr) -> bool {
        let any = self.address.is_none_or(|it| it.is_unspecified());
        self.port == end.port() && (any || self.address == Some(end.ip()))
    }
}

fn listen(directive: &Directive) -> Option<Listen<'_>> {
    let text = directive.arguments.first()?;
    let (address, port) = match text.parse::<SocketAddr>() {
        Ok(end) => (Some(end.ip()), end.port()),
        Err(_) => match text.rsplit_once(':') {
            Some(("*", port)) => (None, port.parse().ok()?),
            _ => match text.parse() {
                Ok(port) => (None, port),
                Err(_) => (text.trim_matches(['[', ']']).parse().ok(), 80),
            },
        },
    };
    let mut options = directive.arguments.iter();
    let backlog = options.find_map(|option| option.strip_prefix("backlog=")?.parse().ok());
    Some(Listen { address, port, backlog, directive })
}

/// A directive that applies at an endpoint, and the block that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The directive.
    pub directive: &'a Directive,
    /// The block: `http`, `server`, `location /x`.
    pub block: String,
}

impl Nginx {
    /// Returns the first directive with this name outside of the http block, such as
    /// `worker_connections`.
    pub fn main(&self, name: &str) -> Option<&Directive> {
        let blocks = self.directives.iter().filter(|it| it.name != "http" && it.name != "stream");
        let inner = blocks.clone().flat_map(|it| &it.block);
        blocks.chain(inner).find(|it| it.name == name)
    }

    /// Returns the `listen` directives for connections to `end`.
    pub fn listens(&self, end: SocketAddr) -> Vec<Listen<'_>> {
        let servers = self.servers().map(|(_, server)| server);
        let directives = servers.flat_map(|it| it.block.iter().filter(|it| it.name == "listen"));
        directives.filter_map(listen).filter(|it| it.takes(end)).collect()
    }

    /// Returns the directives of this name that apply to connections at `end`: those of the server
    /// blocks that listen there and of their locations, or else those of the enclosing block.
    pub fn settings(&self, end: SocketAddr, name: &str) -> Vec<Setting<'_>> {
        let mut found = Vec::new();
        for (outer, server) in self.servers() {
            let listens = server.block.iter().filter(|it| it.name == "listen");
            if !listens.filter_map(listen).any(|it| it.takes(end)) {
                continue;
            }
            let own = server.block.iter().find(|it| it.name == name);
            let around = || outer.block.iter().find(|it| it.name == name);
            if let Some(directive) = own.or_else(around) {
                let block = if own.is_some() { &server.name } else { &outer.name };
                found.push(Setting { directive, block: block.clone() });
            }
            inside(server, name, &mut found);
        }
        let mut seen = Vec::new();
        found.retain(|setting| {
            let is_new = !seen.contains(&setting.directive.location());
            seen.push(setting.directive.location());
            is_new
        });
        found
    }

    /// Returns all directives of this name within `http` and `stream`.
    pub fn all(&self, name: &str) -> Vec<Setting<'_>> {
        let mut found = Vec::new();
        for outer in self.directives.iter().filter(|it| it.name == "http" || it.name == "stream") {
            let own = outer.block.iter().filter(|it| it.name == name);
            found.extend(own.map(|it| Setting { directive: it, block: outer.name.clone() }));
            for server in outer.block.iter().filter(|it| it.name == "server") {
                let own = server.block.iter().filter(|it| it.name == name);
                found.extend(own.map(|it| Setting { directive: it, block: "server".into() }));
                inside(server, name, &mut found);
            }
        }
        found
    }

    /// Returns the server blocks, each with the block around it.
    fn servers(&self) -> impl Iterator<Item = (&Directive, &Directive)> {
        let outer = self.directives.iter().filter(|it| it.name == "http" || it.name == "stream");
        outer.flat_map(|outer| {
            let servers = outer.block.iter().filter(|it| it.name == "server");
            servers.map(move |server| (outer, server))
        })
    }
}

/// Directives in the locations of a block, however deep.
fn inside<'a>(block: &'a Directive, name: &str, found: &mut Vec<Setting<'a>>) {
    for location in block.block.iter().filter(|it| it.name == "location" || it.name == "if") {
        for directive in location.block.iter().filter(|it| it.name == name) {
            found.push(Setting { directive, block: location.text() });
        }
        inside(location, name, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Fake(BTreeMap<&'static str, &'static str>);

    impl Files for Fake {
        fn text(&mut self, path: &Path) -> Result<String, String> {
            let text = self.0.get(path.to_str().unwrap()).ok_or("no such file")?;
            Ok((*text).to_owned())
        }

        fn matching(&mut self, pattern: &Path) -> Vec<PathBuf> {
            let pattern = pattern.to_str().unwrap();
            let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
            let all = self.0.keys().filter(|it| it.starts_with(start) && it.ends_with(end));
            all.map(PathBuf::from).collect()
        }
    }

    fn nginx(files: &[(&'static str, &'static str)]) -> Nginx {
        let mut fake = Fake(files.iter().copied().collect());
        let (directives, problem) = parse(Path::new("/etc/nginx/nginx.conf"), &mut fake);
        Nginx {
            pid: 1,
            config: "/etc/nginx/nginx.conf".into(),
            directives,
            changed_since: None,
            problem,
            reload: String::new(),
        }
    }

    const MAIN: &str = "worker_processes 1;\nevents { worker_connections 64; }\nhttp {\n  \
                        tcp_nodelay off; # why?\n  include sites/*.conf;\n}\n";

    fn places(settings: &[Setting<'_>]) -> Vec<(String, String)> {
        settings.iter().map(|it| (it.directive.location(), it.block.clone())).collect()
    }

    #[test]
    fn a_directive_applies_inside_unless_the_inner_block_has_its_own() {
        let nginx = nginx(&[
            ("/etc/nginx/nginx.conf", MAIN),
            (
                "/etc/nginx/sites/a.conf",
                "server {\n listen 8080 backlog=4;\n location /slow {\n  \
                 tcp_nodelay 'on';\n  if ($a = \"}\") { return 403; }\n }\n}\n",
            ),
            ("/etc/nginx/sites/b.conf", "server { listen [::1]:81; tcp_nodelay on; }\n"),
        ]);
        assert_eq!(nginx.problem, None);
        let end = "10.0.0.2:8080".parse().unwrap();
        let found = nginx.settings(end, "tcp_nodelay");
        let expected = [
            ("/etc/nginx/nginx.conf:4".to_owned(), "http".to_owned()),
            ("/etc/nginx/sites/a.conf:4".to_owned(), "location /slow".to_owned()),
        ];
        assert_eq!(places(&found), expected);
        assert_eq!(found[0].directive.arguments, ["off"]);
        assert_eq!(nginx.listens(end)[0].backlog, Some(4));
        let other = nginx.settings("[::1]:81".parse().unwrap(), "tcp_nodelay");
        assert_eq!(other[0].directive.text(), "tcp_nodelay on");
        assert_eq!(other.len(), 1);
        assert_eq!(nginx.settings("10.0.0.2:9".parse().unwrap(), "tcp_nodelay"), []);
        assert_eq!(nginx.main("worker_connections").unwrap().arguments, ["64"]);
        assert_eq!(nginx.all("tcp_nodelay").len(), 3);
    }

    #[test]
    fn a_file_that_is_missing_is_said_and_loops_end() {
        let missing = nginx(&[]);
        assert_eq!(missing.problem.as_deref(), Some("/etc/nginx/nginx.conf: no such file"));
        let endless = nginx(&[("/etc/nginx/nginx.conf", "include nginx.conf; a {")]);
        assert!(endless.problem.unwrap().contains("too many includes"));
    }

    #[test]
    fn variables_and_quotes_are_words() {
        let found = words("log_format a '$x \"{}\" # no';\nset $y ${z}_1; # yes\n}");
        let texts: Vec<_> = found.iter().map(|word| (word.text.as_str(), word.line)).collect();
        let text = [("log_format", 1), ("a", 1), ("$x \"{}\" # no", 1), ("", 1)];
        assert_eq!(texts[..4], text);
        assert_eq!(texts[4..], [("set", 2), ("$y", 2), ("${z}_1", 2), ("", 2), ("", 3)]);
    }
}
