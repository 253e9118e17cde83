//! The value of a BPF map as memory of this process (`BPF_F_MMAPABLE`): what it holds can be changed
//! and read without a system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The mapped value of an array's first element.
#[derive(Debug)]
pub struct Shared {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and all accesses are atomic.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps the first `bytes` of `map`.
    ///
    /// # Errors
    /// The map cannot be mapped, or is smaller.
    pub fn map(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of `bytes` bytes; nothing else is at the address that the kernel
        // chooses, and it refuses what is larger than the map.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Writes the word at `offset`, a multiple of 4.
    pub fn set(&self, offset: usize, value: u32) {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes, "a word of the value");
        // SAFETY: the word is aligned, lies within the mapping, which outlives the reference, and is
        // accessed as one by the kernel, too.
        let word = unsafe { AtomicU32::from_ptr(self.start.add(offset).as_ptr().cast()) };
        word.store(value, Ordering::Release);
    }

    /// Reads the counter of 64 bits at `offset`, a multiple of 8.
    pub fn counter(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "a counter of the value");
        // SAFETY: as in `set`, of 64 bits.
        let counter = unsafe { AtomicU64::from_ptr(self.start.add(offset).as_ptr().cast()) };
        counter.load(Ordering::Acquire)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
