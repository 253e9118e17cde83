//! nginx in the server's namespace.

use std::fs;
use std::net::SocketAddr;

use crate::error::{Doing, LabError};
use crate::netns::Process;
use crate::stage::Stage;

/// Starts nginx with `directives` in its `http` block, every file in the stage's directory, and
/// returns when it listens at `server`.
///
/// # Errors
/// nginx is missing or refuses the configuration.
pub fn start(stage: &Stage, server: SocketAddr, directives: &str) -> Result<Process, LabError> {
    let dir = stage.dir();
    let at = dir.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
        .concat();
    let configuration = format!(
        "user root;\ndaemon off;\nmaster_process off;\npid {at}/nginx.pid;\n\
         error_log {at}/error.log;\nevents {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 100000;\n{temporary}{directives}}}\n"
    );
    fs::write(dir.join("nginx.conf"), configuration).doing("write nginx.conf")?;
    let mut command = stage.server.command("nginx");
    command.arg("-c").arg(dir.join("nginx.conf"));
    command.arg("-e").arg(dir.join("error.log"));
    let nginx = Process::start(command, "nginx")?;
    stage.wait_for_listener(server)?;
    Ok(nginx)
}

/// nginx and its version, for the labels.
pub fn version(stage: &Stage) -> (String, String) {
    // nginx writes its version to standard error.
    let out = stage.server.command("nginx").arg("-v").output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
    let text = text.unwrap_or_default();
    let version = text.trim_start_matches("nginx version: ").to_owned();
    ("nginx".to_owned(), version)
}
