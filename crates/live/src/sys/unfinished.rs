//! Files with a temporary name, which is removed if a signal ends this process.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Number of files that can be registered at the same time.
const FILES_MAX: usize = 16;

/// Paths of the files; null where none is registered. A path is never freed, since a handler may
/// read it at any time; a process has few.
static PATHS: [AtomicPtr<c_char>; FILES_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; FILES_MAX];

/// A registered file; dropping this value removes it from the register, not from the disk.
pub struct Unfinished(usize);

impl Unfinished {
    /// Registers a file by its absolute path, before it has this name. SIGTERM, SIGHUP and SIGQUIT
    /// remove it from now on and end the process as without a handler; SIGINT is the business of
    /// whoever handles it, with [`remove_all`]. Returns `None` if too many files are registered.
    pub fn register(path: &Path) -> Option<Self> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].into_iter().for_each(handle)
        });
        let path = CString::new(path.as_os_str().as_bytes()).ok()?.into_raw();
        let is_free = |slot: &&AtomicPtr<c_char>| {
            let taken =
                slot.compare_exchange(ptr::null_mut(), path, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok()
        };
        let place = PATHS.iter().position(|slot| is_free(&slot));
        place.map(Self)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        PATHS[self.0].store(ptr::null_mut(), Ordering::SeqCst);
    }
}

/// Removes all registered files.
pub fn remove_all() {
    for slot in &PATHS {
        let path = slot.load(Ordering::SeqCst);
        if !path.is_null() {
            // SAFETY: unlink(2) may be called in a handler; the path ends in a null byte and is
            // never freed.
            unsafe { libc::unlink(path) };
        }
    }
}

extern "C" fn remove_and_end(signal: c_int) {
    remove_all();
    // SAFETY: both may be called in a handler. The signal is blocked until the handler returns, and
    // ends the process then.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Installs the handler, unless the signal is ignored (as nohup(1) does) or handled already.
fn handle(signal: c_int) {
    // SAFETY: all bytes zero are a valid `sigaction`, both are local, and the handler has the type
    // that is called without SA_SIGINFO and is never unloaded.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut before);
        if before.sa_sigaction != libc::SIG_DFL {
            return;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int) = remove_and_end;
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}
