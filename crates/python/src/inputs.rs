//! Where captures come from: paths, bytes, and file objects of Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tcpwhy_cli::error::Error;
use tcpwhy_cli::sources;
use tcpwhy_core::capture::Source;

/// A capture to read.
#[derive(Clone)]
pub enum Input {
    /// A file of the system.
    Path(PathBuf),
    /// A capture in memory, with the name that reports give it.
    Bytes(String, Arc<[u8]>),
    /// A file object, with its name.
    File(String, FileObject),
}

impl Input {
    /// Takes what `tcpwhy._inputs` gives: a name, and the bytes or the file object that has this name, or
    /// `None` for a path.
    ///
    /// # Errors
    /// An exception of the file object.
    pub fn of(name: PathBuf, content: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(content) = content else { return Ok(Self::Path(name)) };
        let name = name.to_string_lossy().into_owned();
        Ok(match content.extract::<&[u8]>() {
            Ok(bytes) => Self::Bytes(name, bytes.into()),
            Err(_) => Self::File(name, FileObject::of(&content)?),
        })
    }

    /// Returns the name that reports give the capture.
    pub fn name(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Bytes(name, _) | Self::File(name, _) => name.into(),
        }
    }
}

/// Opens captures; a stream among them ends as soon as `interrupted` is set.
///
/// # Errors
/// A path cannot be opened.
pub fn open(inputs: &[Input], interrupted: &Arc<AtomicBool>) -> Result<Vec<Source>, Error> {
    let one = |input: &Input| match input {
        Input::Path(path) => {
            let interrupted = Arc::clone(interrupted);
            sources::open_one(path, move || interrupted.load(Ordering::Relaxed))
        }
        Input::Bytes(name, bytes) => Ok(Source::memory(name, Arc::clone(bytes))),
        Input::File(name, file) if file.is_seekable => {
            let file = file.clone();
            let bytes = file.bytes;
            let open = move || Ok(Reading { file: file.clone(), at: 0, interrupted: None });
            Ok(Source::file(name, bytes, open))
        }
        Input::File(name, file) => {
            let interrupted = Some(Arc::clone(interrupted));
            Ok(Source::stream(name, Reading { file: file.clone(), at: 0, interrupted }))
        }
    };
    inputs.iter().map(one).collect()
}

/// An open binary file of Python. If it can seek, it is read from its start as often as needed.
#[derive(Clone)]
pub struct FileObject {
    object: Arc<Py<PyAny>>,
    is_seekable: bool,
    /// Its size, if it can seek.
    bytes: Option<u64>,
    /// Held from `seek` to the end of `read`.
    position: Arc<Mutex<()>>,
}

impl FileObject {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is_seekable =
            object.hasattr("seekable")? && object.call_method0("seekable")?.extract()?;
        let end = || -> PyResult<u64> { object.call_method1("seek", (0, 2))?.extract() };
        Ok(Self {
            bytes: if is_seekable { Some(end()?) } else { None },
            object: Arc::new(object.clone().unbind()),
            is_seekable,
            position: Arc::default(),
        })
    }
}

/// A file object while it is read.
struct Reading {
    file: FileObject,
    /// Bytes that were read.
    at: u64,
    /// The flag that ends a stream, as
    /// [`Open::Once`](tcpwhy_core::capture::Open::Once) permits.
    interrupted: Option<Arc<AtomicBool>>,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupted.as_ref().is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let FileObject { object, is_seekable, position, .. } = &self.file;
        let read = Python::attach(|py| -> PyResult<usize> {
            let object = object.bind(py);
            let _held = position.lock_py_attached(py);
            if *is_seekable {
                object.call_method1("seek", (self.at,))?;
            }
            let read = object.call_method1("read", (buffer.len(),))?;
            // A raw stream that does not block and has nothing gives `None`.
            let read: Option<&[u8]> = read.extract()?;
            let read = read.unwrap_or_default();
            let room = buffer.get_mut(..read.len()).ok_or_else(|| {
                PyValueError::new_err("the file object gave more bytes than it was asked for")
            })?;
            room.copy_from_slice(read);
            Ok(read.len())
        });
        let read = read.map_err(|error| io::Error::other(error.to_string()))?;
        self.at += read as u64;
        Ok(read)
    }
}
