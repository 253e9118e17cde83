//! An interface: its size limit, queues, offloads, rings and interrupts. Its counters are in
//! [`crate::counters::Counters`], by `NAME.COUNTER`.

/// An interface of the namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The number of the interface.
    pub index: u32,
    /// The name of the interface.
    pub name: String,
    /// Largest packet, bytes.
    pub mtu: u64,
    /// Length of its transmit queue, packets.
    pub txqueuelen: u64,
    /// `true` for the loopback interface.
    pub is_loopback: bool,
    /// `true` if the interface is up.
    pub is_up: bool,
    /// The root queueing discipline of the interface.
    pub qdisc: String,
    /// Bytes and packets that wait in it.
    pub backlog: (u64, u64),
    /// Receive and transmit queues.
    pub queues: (u64, u64),
    /// Offloads that are on, of `rx-checksum`, `tx-checksum`, `sg`, `tso`, `gso`, `gro`; `None`
    /// where the driver does not say.
    pub offloads: Option<Vec<(&'static str, bool)>>,
    /// Receive and transmit ring: now, and at most; `None` where it has none.
    pub rings: Option<Rings>,
    /// Interrupts, with the CPUs that take them.
    pub interrupts: Vec<Interrupt>,
    /// Receive queues with CPUs for RPS.
    pub rps_queues: u64,
    /// `rp_filter` of the interface.
    pub rp_filter: Option<u64>,
}

/// Sizes of an interface's rings, packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rings {
    /// Size of the receive ring now.
    pub rx: u64,
    /// Greatest size of the receive ring.
    pub rx_max: u64,
    /// Size of the transmit ring now.
    pub tx: u64,
    /// Greatest size of the transmit ring.
    pub tx_max: u64,
}

/// An interrupt of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// The number of the interrupt.
    pub irq: u32,
    /// CPUs that it may go to, as `/proc/irq/N/smp_affinity_list` lists them.
    pub cpus: String,
    /// Increase during the sample.
    pub grew_by: u64,
}
