//! Network namespaces, which are deleted when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cleanup;
use crate::error::{Doing, LabError};
use crate::sys;

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// It cannot be started, or it fails.
pub fn run(program: &str, args: &[&str]) -> Result<String, LabError> {
    finish(Command::new(program).args(args), &format!("{program} {}", args.join(" ")))
}

fn finish(command: &mut Command, line: &str) -> Result<String, LabError> {
    let out =
        command.output().map_err(|source| not_started(command.get_program(), source, line))?;
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(LabError::Command { command: line.to_owned(), stderr });
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Returns the error for a program that cannot be started; for a missing program it names the
/// package.
fn not_started(program: &OsStr, source: std::io::Error, doing: &str) -> LabError {
    if source.kind() != std::io::ErrorKind::NotFound {
        return LabError::Io { what: doing.to_owned(), source };
    }
    let program = program.to_string_lossy().into_owned();
    let package = match program.as_str() {
        "ip" | "ss" => "iproute2",
        "nft" => "nftables",
        "go" => "golang-go",
        "ping" => "iputils-ping",
        program => program,
    };
    LabError::Missing { package: package.to_owned(), program }
}

/// A network namespace of the lab; dropping it deletes it.
#[derive(Debug)]
pub struct Netns {
    name: String,
    file: File,
}

impl Netns {
    /// Creates a namespace for `role` (`client`, `server`, `router`, …) with its loopback up.
    ///
    /// # Errors Not root, or `ip` fails.
    pub fn create(role: &str) -> Result<Netns, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !sys::is_root() {
            return Err(LabError::NotRoot);
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{count}-{role}", cleanup::own_prefix());
        cleanup::remember_netns(&name);
        let made = run("ip", &["netns", "add", &name]).and_then(|_| {
            File::open(format!("/run/netns/{name}")).doing(format!("open namespace {name}"))
        });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                cleanup::remove_netns(&name);
                return Err(error);
            }
        };
        let netns = Netns { name, file };
        netns.ip("link set lo up")?;
        // A cached ssthresh would make a loss on one connection slow down the start of the next.
        netns.sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
        Ok(netns)
    }

    /// Name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside with arguments separated by spaces.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn ip(&self, args: &str) -> Result<String, LabError> {
        let mut all = vec!["-n", &self.name];
        all.extend(args.split_whitespace());
        run("ip", &all)
    }

    /// Runs a command inside to its end and returns what it printed.
    ///
    /// # Errors
    /// It cannot be started, or it fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LabError> {
        let line = format!("{program} {}", args.join(" "));
        finish(self.command(program).args(args), &line)
    }

    /// Writes a setting of this namespace. The path is opened inside, so no other namespace is
    /// changed.
    ///
    /// # Errors The setting is not per namespace on this kernel, or the value is rejected.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.inside(|| std::fs::write(&path, value))?.doing(format!("sysctl {key}={value}"))
    }

    /// Returns a command that will run inside and end with the lab. It must be spawned from a
    /// thread that lives longer, because the kernel ties the child's end to the spawning thread.
    pub fn command(&self, program: &str) -> Command {
        let fd = self.file.as_raw_fd();
        let mut command = Command::new(program);
        let enter = move || {
            // SAFETY: the namespace file outlives the spawn; the child holds its own copy.
            let netns = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
            sys::enter_netns(netns)?;
            sys::prepare_child()
        };
        // SAFETY: `enter` makes only async-signal-safe system calls.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Runs `f` on its own thread inside and returns its result.
    ///
    /// # Errors The namespace cannot be entered.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| sys::enter_netns(self.file.as_fd()).map(|()| f()));
            match worker.join() {
                Ok(result) => result.doing(format!("enter namespace {}", self.name)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Returns a handle with which a thread can enter the namespace, for threads that outlive a
    /// borrow.
    ///
    /// # Errors The kernel refuses.
    pub fn handle(&self) -> Result<NetnsHandle, LabError> {
        self.file.try_clone().map(NetnsHandle).doing("duplicate a namespace handle")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        cleanup::give_way();
        cleanup::remove_netns(&self.name);
    }
}

/// An owned handle of a namespace, for threads.
#[derive(Debug)]
pub struct NetnsHandle(File);

impl NetnsHandle {
    /// Moves the calling thread inside.
    ///
    /// # Errors The kernel refuses.
    pub fn enter(&self) -> Result<(), LabError> {
        sys::enter_netns(self.0.as_fd()).doing("enter a namespace")
    }
}

/// A long-running program of a case; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `command` with its standard error kept for [`Process::wait_for_stderr`].
    ///
    /// # Errors The program is missing (`package` names the package to install) or cannot start.
    pub fn start(command: Command, package: &str) -> Result<Process, LabError> {
        Self::start_into(command, package, Stdio::null())
    }

    /// Starts as [`Process::start`] does, with its standard output going to `output`.
    ///
    /// # Errors As for [`Process::start`].
    pub fn start_into(
        mut command: Command,
        package: &str,
        output: impl Into<Stdio>,
    ) -> Result<Process, LabError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let child = command.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                LabError::Missing { program: name.clone(), package: package.to_owned() }
            }
            _ => LabError::Io { what: format!("start {name}"), source },
        })?;
        cleanup::remember_child(child.id());
        Ok(Process { child, name })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads standard error until it contains `text`.
    ///
    /// # Errors The program ended before; the error contains its output.
    pub fn wait_for_stderr(&mut self, text: &str) -> Result<(), LabError> {
        self.read_stderr(|said| said.contains(text)).map(|_| ())
    }

    /// Reads standard error up to the end of its first line, and returns that.
    ///
    /// # Errors As for [`Process::wait_for_stderr`].
    pub fn first_line_of_stderr(&mut self) -> Result<String, LabError> {
        let said = self.read_stderr(|said| said.ends_with('\n'))?;
        Ok(said.trim_end().to_owned())
    }

    /// Reads standard error until `is_enough` of it has come.
    fn read_stderr(&mut self, is_enough: impl Fn(&str) -> bool) -> Result<String, LabError> {
        let Some(stderr) = self.child.stderr.as_mut() else {
            return Ok(String::new());
        };
        let mut said = Vec::new();
        let mut byte = [0];
        loop {
            let text = String::from_utf8_lossy(&said);
            if is_enough(&text) {
                return Ok(text.into_owned());
            }
            match stderr.read(&mut byte) {
                Ok(1) => said.push(byte[0]),
                _ => {
                    let stderr = text.trim().to_owned();
                    return Err(LabError::Command { command: self.name.clone(), stderr });
                }
            }
        }
    }

    /// Asks the program to end (SIGINT) and returns the rest of its standard error.
    pub fn stop(&mut self) -> String {
        sys::kill(self.child.id(), libc::SIGINT);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(5) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.end();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        said
    }

    fn end(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        cleanup::forget_child(self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
