//! The border between the worker of a page and the analysis.
//!
//! The worker calls [`tcpwhy_room`] for room, writes what it asks for into it as JSON, and calls
//! [`tcpwhy_report`]. That calls the imports below, and gives its answer to `answer`.

use crate::{Asked, Pass, Reading, document};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, BufReader, Read};
use std::panic;
use tcpwhy_core::capture::Progress;
use tcpwhy_core::findings::error_in;
use tcpwhy_core::model::Language;
use tcpwhy_core::page;

/// Bytes read at a time from a file of the page: each read is a call into the browser.
const READ_BYTES: usize = 1 << 20;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Reads up to `bytes` bytes of file `index` at `offset` to `to`. Returns their number, or -1
    /// if the browser cannot read it.
    fn read(index: u32, offset: f64, to: *mut u8, bytes: u32) -> i32;
    /// Takes note that so many bytes of all files have passed `pass`.
    fn progress(pass: u32, consumed_bytes: f64);
    /// Takes a part of the answer: UTF-8.
    fn answer(part: u32, text: *const u8, bytes: u32);
    /// Takes note that the memory does not suffice.
    fn memory_is_full();
}

/// Parts of the answer.
#[derive(Clone, Copy)]
enum Part {
    /// The data of the page.
    Document = 0,
    /// The page that contains it, as a file.
    Page = 1,
    /// The reason why there is none of both.
    Error = 2,
    /// A fault of the program.
    Panic = 3,
}

fn tell(part: Part, text: &str) {
    // SAFETY: the worker reads so many bytes from there before it returns.
    unsafe { answer(part as u32, text.as_ptr(), text.len() as u32) }
}

/// The system's allocator, which tells the worker when it has no more.
struct Bounded;

// SAFETY: all calls go to `System`, whose guarantees are those of this allocator.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the conditions of `System`.
        noted(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.realloc(at, layout, bytes) })
    }
}

fn noted(at: *mut u8) -> *mut u8 {
    if at.is_null() {
        // SAFETY: it takes nothing and has an effect in the worker only.
        unsafe { memory_is_full() }
    }
    at
}

#[global_allocator]
static MEMORY: Bounded = Bounded;

/// The files of the page.
#[derive(Clone, Copy)]
struct Files;

impl Reading for Files {
    type File = BufReader<File>;

    fn open(&self, index: usize) -> Self::File {
        BufReader::with_capacity(READ_BYTES, File { index: index as u32, offset: 0 })
    }

    fn progress(&self, pass: Pass, at: Progress) {
        // SAFETY: it takes numbers and has an effect in the worker only.
        unsafe { progress(pass as u32, at.consumed_bytes as f64) }
    }
}

/// A file of the page, read from its start.
struct File {
    index: u32,
    offset: u64,
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = buffer.len().min(READ_BYTES) as u32;
        // SAFETY: the worker writes at most so many bytes, which the buffer has.
        let read = unsafe { read(self.index, self.offset as f64, buffer.as_mut_ptr(), bytes) };
        let read = usize::try_from(read).map_err(|_| {
            io::Error::other("the browser cannot read it any more; choose the file once more")
        })?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Returns room for a text of so many bytes, which [`tcpwhy_report`] takes back.
#[unsafe(no_mangle)]
pub extern "C" fn tcpwhy_room(bytes: usize) -> *mut u8 {
    Box::leak(vec![0_u8; bytes].into_boxed_slice()).as_mut_ptr()
}

/// Analyses what the `bytes` bytes at `asked` ask for, and answers.
///
/// # Safety
/// `asked` is the room that [`tcpwhy_room`] returned for `bytes`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpwhy_report(asked: *mut u8, bytes: usize) {
    panic::set_hook(Box::new(|fault| tell(Part::Panic, &fault.to_string())));
    // SAFETY: the caller leaves it to this function, which frees it.
    let asked = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(asked, bytes)) };
    let asked = serde_json::from_slice::<Asked>(&asked);
    let language = asked.as_ref().ok().and_then(|asked| Language::from_id(&asked.language));
    match asked.map_err(Into::into).and_then(|asked| document(&asked, &Files)) {
        Ok(document) => {
            tell(Part::Document, &document);
            tell(Part::Page, &page::render(&document));
        }
        Err(error) => {
            tell(Part::Error, &error_in(language.unwrap_or_default(), &error.to_string()))
        }
    }
}
