//! The program `tcpwhy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tcpwhy_cli::main(std::env::args_os())
}
