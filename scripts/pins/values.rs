//! Thresholds that can be changed while a test runs. `scripts/pin-thresholds.py` adds this file to
//! its copy of the core.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// How a threshold can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Lower,
    Higher,
    Tiny,
    Huge,
}

impl Change {
    pub const ALL: [Self; 4] = [Self::Lower, Self::Higher, Self::Tiny, Self::Huge];
}

/// One more than the index of the changed threshold; 0 if none is changed.
static CHANGED: AtomicUsize = AtomicUsize::new(0);
static CHANGE: AtomicUsize = AtomicUsize::new(0);
static READ: [AtomicBool; NAMES.len()] = [const { AtomicBool::new(false) }; NAMES.len()];
static FROM_ENVIRONMENT: OnceLock<()> = OnceLock::new();

/// Changes one threshold, or none.
pub fn change(which: Option<(usize, Change)>) {
    CHANGE.store(which.map_or(0, |(_, change)| change as usize), Relaxed);
    CHANGED.store(which.map_or(0, |(index, _)| index + 1), Relaxed);
}

/// Returns the thresholds that were read since the last call.
pub fn take_read() -> Vec<bool> {
    READ.iter().map(|read| read.swap(false, Relaxed)).collect()
}

/// The change that the variable `PIN` asks for, such as `RTO_MIN_NS=Lower`.
fn from_environment() {
    let Ok(asked) = std::env::var("PIN") else { return };
    let (name, how) = asked.split_once('=').expect("PIN=NAME=CHANGE");
    let index = NAMES.iter().position(|one| *one == name).expect("a threshold");
    let how = Change::ALL.into_iter().find(|one| format!("{one:?}") == how).expect("a change");
    change(Some((index, how)));
}

/// Returns the threshold with this index, whose value in the source is `stated`.
pub fn value<T: Number>(index: usize, stated: T) -> T {
    FROM_ENVIRONMENT.get_or_init(from_environment);
    READ[index].store(true, Relaxed);
    if CHANGED.load(Relaxed) != index + 1 {
        return stated;
    }
    let is_count = !NAMES[index].ends_with("_PART") && !NAMES[index].ends_with("_FACTOR");
    stated.changed(Change::ALL[CHANGE.load(Relaxed)], is_count)
}

pub trait Number: Copy {
    /// Counts up to 8 are lowered and raised by one, other numbers are halved and doubled.
    fn changed(self, change: Change, is_count: bool) -> Self;
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Number for $kind {
            fn changed(self, change: Change, is_count: bool) -> Self {
                match change {
                    Change::Lower if is_count && self <= 8 => self - 1,
                    Change::Higher if is_count && self <= 8 => self + 1,
                    Change::Lower => self / 2,
                    Change::Higher => self.saturating_mul(2),
                    Change::Tiny => self / 100,
                    Change::Huge => self.saturating_mul(100),
                }
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i64);

impl Number for f64 {
    fn changed(self, change: Change, _: bool) -> Self {
        match change {
            Change::Lower => self / 2.0,
            Change::Higher => self * 2.0,
            Change::Tiny => self / 100.0,
            Change::Huge => self * 100.0,
        }
    }
}
