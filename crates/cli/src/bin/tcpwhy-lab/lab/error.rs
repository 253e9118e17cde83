//! Errors of the lab: each says in one sentence what failed, where, and what to do.

use std::io;
use tcpwhy_lab::LabError;
use tcpwhy_lab::score::AnswerError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Command(#[from] tcpwhy_cli::error::Error),
    #[error("{0}")]
    Lab(#[from] LabError),
    #[error("{path}: {source}")]
    Answers { path: String, source: AnswerError },
    #[error(
        "{path}: there is no labels.json below it; `tcpwhy lab run CASE --out {path}` makes some"
    )]
    NoLabels { path: String },
    #[error("the case cannot be kept up: {0}")]
    Keep(#[source] io::Error),
    #[error("no command of the lab is called `{0}`; tcpwhy lab help shows the commands")]
    NoHelp(String),
    #[error("the result cannot be put into JSON")]
    Json(#[from] serde_json::Error),
}
