// The arguments of all commands that are paths: for the tests of outputs, and for the test beside the
// arguments that none is missing here.

/// The use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is read.
    Input,
    /// A file is written.
    File,
    /// Files are written into a folder.
    Folder,
    /// Captured packets are written into a private folder.
    Private,
    /// It is the file that a treatment changes.
    Treated,
}

/// A path among the arguments of a command.
#[derive(Clone, Copy, Debug)]
pub struct PathArgument {
    /// The command; empty for `tcpwhy` itself.
    pub command: &'static str,
    /// The argument's name in the program.
    pub argument: &'static str,
    #[allow(dead_code, reason = "one of the two users of this table compares names only")]
    pub used: Use,
}

const fn path(command: &'static str, argument: &'static str, used: Use) -> PathArgument {
    PathArgument { command, argument, used }
}

/// All of them.
pub const PATHS: &[PathArgument] = &[
    path("", "files", Use::Input),
    path("", "keylog", Use::Input),
    path("", "parquet", Use::Folder),
    path("", "sockets", Use::Input),
    path("annotate", "file", Use::Input),
    path("annotate", "keylog", Use::Input),
    path("annotate", "output", Use::File),
    path("annotate", "sockets", Use::Input),
    path("anonymize", "file", Use::Input),
    path("anonymize", "key_file", Use::Input),
    path("anonymize", "output", Use::File),
    path("compare", "after", Use::Input),
    path("compare", "before", Use::Input),
    path("compare", "keylog", Use::Input),
    path("compare", "output", Use::File),
    path("compare", "sockets", Use::Input),
    path("dns", "resolv_conf", Use::Input),
    path("doctor", "bundle", Use::Private),
    path("doctor", "cacert", Use::Input),
    path("explain", "files", Use::Input),
    path("explain", "keylog", Use::Input),
    path("explain", "parquet", Use::Folder),
    path("explain", "sockets", Use::Input),
    path("host", "for_report", Use::Input),
    path("lab hold", "out", Use::Private),
    path("lab man", "folder", Use::Folder),
    path("lab run", "out", Use::Private),
    path("lab score", "answers", Use::Input),
    path("lab score", "dir", Use::Input),
    path("lab verify", "out", Use::Private),
    path("load", "cacert", Use::Input),
    path("man", "folder", Use::Folder),
    path("mcp", "folders", Use::Input),
    path("probe", "cacert", Use::Input),
    path("report", "files", Use::Input),
    path("report", "keylog", Use::Input),
    path("report", "output", Use::File),
    path("report", "sockets", Use::Input),
    path("treat resolver", "file", Use::Treated),
    path("watch", "keylog", Use::Input),
    path("watch", "write", Use::Private),
];
