//! `TCP_INFO` of this process's own connections, by netlink, which takes no privilege
//! (sock_diag(7)).

use super::Sockets;
use std::collections::HashSet;
use tcpwhy_live::diag::{Diag, TcpState};
use tcpwhy_live::tcp_info::TcpInfo;

/// Sums over the readings.
#[derive(Default)]
pub struct OwnSockets {
    diag: Option<Diag>,
    samples: u64,
    rtt_min_us: Option<u64>,
    rtt_us: u64,
    /// Values of the last reading.
    last: Limited,
}

/// Times and counts that only grow during the life of a connection.
#[derive(Clone, Copy, Default)]
struct Limited {
    total_retrans: u64,
    busy_us: u64,
    rwnd_us: u64,
    sndbuf_us: u64,
}

impl OwnSockets {
    /// Reads the sockets; if the kernel refuses, no reading is added.
    pub fn read(&mut self) {
        let inodes = own_inodes();
        let Some(mut diag) = self.diag.take().or_else(|| Diag::open().ok()) else { return };
        let mut last = Limited::default();
        let mut sockets = 0;
        let read = diag.dump(&[TcpState::Established], |entry| {
            if let Some(info) = entry.tcp_info.filter(|_| inodes.contains(&entry.inode)) {
                sockets += 1;
                self.add(&info, &mut last);
            }
        });
        if read.is_ok() {
            self.diag = Some(diag);
        }
        if sockets > 0 {
            self.last = last;
        }
    }

    fn add(&mut self, info: &TcpInfo, last: &mut Limited) {
        if info.tcpi_rtt_us > 0 {
            self.samples += 1;
            self.rtt_us += info.tcpi_rtt_us;
        }
        let min_us = Some(info.tcpi_min_rtt_us).filter(|it| *it > 0);
        self.rtt_min_us = self.rtt_min_us.into_iter().chain(min_us).min();
        last.total_retrans += info.tcpi_total_retrans;
        last.busy_us += info.tcpi_busy_time_us;
        last.rwnd_us += info.tcpi_rwnd_limited_us;
        last.sndbuf_us += info.tcpi_sndbuf_limited_us;
    }

    /// Returns the sums; `None` if no socket was read.
    pub fn sum(&self) -> Option<Sockets> {
        let share = |part: u64| part as f64 / self.last.busy_us.max(1) as f64;
        (self.samples > 0).then(|| Sockets {
            samples: self.samples,
            rtt_min_ns: self.rtt_min_us.unwrap_or(0) * 1_000,
            rtt_ns: self.rtt_us * 1_000 / self.samples,
            total_retrans: self.last.total_retrans,
            rwnd_limited_share: share(self.last.rwnd_us).min(1.0),
            sndbuf_limited_share: share(self.last.sndbuf_us).min(1.0),
        })
    }
}

/// Returns the inodes of this process's sockets.
fn own_inodes() -> HashSet<u32> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let inode = |file: std::fs::DirEntry| {
        let link = std::fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    files.filter_map(inode).collect()
}
