//! Treats sockets: existing ones through a duplicate of their descriptor, new ones by a kernel hook
//! or by repeated looks.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::error::TreatError;
use super::journal::Journal;
use super::plan::{
    Counts, Newcomers, Planned, TreatmentRequest, check, is_gone, planned, require_one, scope,
};
use super::record::{Change, Lifetime, Process, Record, Scope, Side, VERSION, What};
use super::setting::{Setting, Value};
use super::{reach, system, undo};
use crate::hooks::established::{
    Established, EstablishedHook, PORTS_MAX, Rule, VALUE_BYTES, cgroup_root,
};
use crate::hooks::pinned;
use tcpwhy_live::error::LiveError;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::sockets::Peer;

/// Period at which the sockets are listed if no hook records new connections, or if some could not
/// be reached yet.
const AGAIN: Duration = Duration::from_millis(100);
/// Period at which they are listed otherwise.
const AGAIN_WITH_HOOK: Duration = Duration::from_secs(1);
/// Period at which `TCP_QUICKACK` is set again.
const QUICKACK_AGAIN: Duration = Duration::from_millis(5);

/// Sockets under treatment. Dropping it undoes the treatment, unless it is kept.
pub struct Treatment {
    journal: Journal,
    record: Record,
    setting: Setting,
    scope: Scope,
    peer: Option<Peer>,
    netns: Netns,
    hook: Option<EstablishedHook>,
    newcomers: Newcomers,
    known: HashSet<u64>,
    counts: Counts,
    looked: Instant,
    refused: Option<io::Error>,
    is_over: bool,
}

impl Treatment {
    /// Begins the treatment: first with new connections, so that none is missed, then with existing
    /// ones.
    ///
    /// # Errors
    /// Something treats the same already; the journal cannot be written; nothing can be reached.
    pub fn begin(journal: Journal, asked: &TreatmentRequest) -> Result<Self, TreatError> {
        let (netns, scope) = scope(asked)?;
        check(&asked.setting)?;
        require_one(&mut reach::look(&netns, &scope, asked.peer)?)?;
        let record = {
            let lock = journal.lock()?;
            super::refuse_twice(&journal, |what| match what {
                What::Sockets { setting, scope: other, .. } => {
                    setting.id() == asked.setting.id() && other.overlaps(&scope)
                }
                _ => false,
            })?;
            let record = Record {
                version: VERSION,
                id: journal.next_id(&lock)?,
                what: What::Sockets {
                    setting: asked.setting.clone(),
                    scope: scope.clone(),
                    hook_map: None,
                },
                state: Lifetime::Running,
                by: system::by(),
                since: system::since(),
                changes: Vec::new(),
            };
            journal.write(&record)?;
            record
        };
        let mut treatment = Self {
            journal,
            record,
            setting: asked.setting.clone(),
            scope,
            peer: asked.peer,
            netns,
            hook: None,
            newcomers: Newcomers::Hook,
            known: HashSet::new(),
            counts: Counts::default(),
            looked: Instant::now(),
            refused: None,
            is_over: false,
        };
        match treatment.change_all() {
            Ok(()) => Ok(treatment),
            Err(error) => Err(treatment.end().after(error)),
        }
    }

    /// Treats new connections from now on, and those that there are.
    fn change_all(&mut self) -> Result<(), TreatError> {
        self.newcomers = self.hook_up()?;
        self.look(false)?;
        let counts = &self.counts;
        if counts.changed == 0 && counts.refused > 0 {
            let sockets = super::sockets(counts.refused);
            let source = self.refused.take().unwrap_or_else(|| io::Error::other("refused"));
            let (option, value) = (self.setting.option(), self.value_words());
            return Err(TreatError::Refused { option, value, sockets, source });
        }
        Ok(())
    }

    /// Returns the value that the sockets get, for a reader.
    fn value_words(&self) -> String {
        match &self.setting {
            Setting::CongestionControl { name } => name.clone(),
            _ => "on".into(),
        }
    }

    /// Attaches the kernel's hook if it can set this option. The journal names the file of its
    /// changes before it makes any.
    fn hook_up(&mut self) -> Result<Newcomers, TreatError> {
        let (rule, cgroup) = match self.rule() {
            Ok(rule) => rule,
            Err(why) => return Ok(Newcomers::Listing(why)),
        };
        let Process { pid, pid_start_ticks } = self.record.by.process;
        let pin = pinned::path(&format!("treat-{pid}-{pid_start_ticks}-{}", self.record.id));
        if let What::Sockets { hook_map, .. } = &mut self.record.what {
            *hook_map = Some(pin.clone());
        }
        self.journal.write(&self.record)?;
        match EstablishedHook::attach(&rule, &cgroup, &pin) {
            Ok(hook) => self.hook = Some(hook),
            Err(lack) => {
                if let What::Sockets { hook_map, .. } = &mut self.record.what {
                    *hook_map = None;
                }
                self.journal.write(&self.record)?;
                return Ok(Newcomers::Listing(lack.to_string()));
            }
        }
        Ok(Newcomers::Hook)
    }

    /// Returns the rule of the hook and the control group to which it is attached.
    fn rule(&self) -> Result<(Rule, PathBuf), String> {
        let (option, size, value) = match &self.setting {
            Setting::Nodelay => (libc::TCP_NODELAY, 4, 1i32.to_ne_bytes().to_vec()),
            Setting::CongestionControl { name } => {
                (libc::TCP_CONGESTION, VALUE_BYTES as u32, name.clone().into_bytes())
            }
            Setting::Buffers { .. } => {
                return Err("applications size buffers after a connection is established".into());
            }
            Setting::Quickack => return Err("kernel hooks cannot set TCP_QUICKACK".into()),
        };
        let mut bytes = [0; VALUE_BYTES];
        let length = value.len().min(VALUE_BYTES - usize::from(size as usize == VALUE_BYTES));
        bytes[..length].copy_from_slice(&value[..length]);
        let words = |error: TreatError| error.to_string();
        let mut ports: Vec<u16> = self.scope.port.into_iter().collect();
        if self.scope.pid.is_some() && ports.is_empty() {
            ports = reach::listening_ports(&self.netns, &self.scope).map_err(words)?;
            if ports.is_empty() || ports.len() > PORTS_MAX {
                return Err(format!("the process listens at {} ports", ports.len()));
            }
        }
        let cgroup = match &self.scope.cgroup {
            Some(path) => reach::cgroup_directory(path).map_err(words)?,
            None => cgroup_root().ok_or("no control groups of version 2 are mounted")?,
        };
        let rule = Rule {
            netns_cookie: self.scope.namespace.netns_cookie.ok_or("it needs Linux 5.14")?,
            servers: self.scope.side != Side::Client,
            // At the time of establishment the process that opens a connection is not known.
            clients: self.scope.side != Side::Server && self.scope.pid.is_none(),
            ports,
            peer: self.peer.map(|peer| SocketAddr::new(peer.ip, peer.port.unwrap_or(0))),
            option,
            size,
            value: bytes,
        };
        Ok((rule, cgroup))
    }

    /// Returns the number of the treatment.
    pub fn id(&self) -> u32 {
        self.record.id
    }

    /// Returns its record in the journal.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how connections that open later are treated.
    pub fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    /// Returns the longest time that may pass until [`tend`](Self::tend) is called again.
    pub fn tend_within(&self) -> Duration {
        match self.setting {
            // Each socket costs a few system calls each time.
            Setting::Quickack => QUICKACK_AGAIN.max(QUICKACK_AGAIN / 50 * self.known.len() as u32),
            _ => AGAIN / 2,
        }
    }

    /// Treats sockets that have opened since; `false` if its record is gone: another process that
    /// undid the treatment has removed it.
    ///
    /// # Errors
    /// The journal cannot be written; sockets cannot be read any more.
    pub fn tend(&mut self) -> Result<bool, TreatError> {
        if !self.journal.has(self.record.id) {
            return Ok(false);
        }
        self.take_new()?;
        if self.setting == Setting::Quickack {
            self.set_again();
        }
        let is_urgent = self.hook.is_none()
            || self.counts.unreached > 0
            || self.counts.denied > 0
            // A process may open connections itself, which the hook does not know as its own.
            || self.scope.pid.is_some()
            // A listener that was opened before its process was moved is of another group.
            || self.scope.cgroup.is_some();
        if self.looked.elapsed() >= if is_urgent { AGAIN } else { AGAIN_WITH_HOOK } {
            match self.look(true) {
                // The namespace has gone with all sockets in it.
                Err(TreatError::Live(LiveError::EnterNetns { .. })) => {}
                other => other?,
            }
        }
        Ok(true)
    }

    /// Connections that the hook has treated: noted, with the value that they had.
    fn take_new(&mut self) -> Result<(), TreatError> {
        let Some(hook) = &self.hook else { return Ok(()) };
        let events = hook.changed();
        if events.is_empty() {
            return Ok(());
        }
        self.note_new(&events)?;
        if let Some(hook) = &mut self.hook {
            hook.noted(&events);
        }
        if let Some(event) = events.iter().find(|event| event.error != 0) {
            let error = io::Error::from_raw_os_error(event.error);
            self.hook = None;
            self.newcomers = Newcomers::Listing(format!(
                "this kernel's hooks cannot set {}: {error}",
                self.setting.option()
            ));
        }
        Ok(())
    }

    fn note_new(&mut self, events: &[Established]) -> Result<(), TreatError> {
        let changes = undo::of_hook(&self.setting, events);
        for change in changes {
            // A look that came between the hook and this one took its value for the socket's own.
            if !self.known.insert(change.cookie) {
                self.counts.had_it = self.counts.had_it.saturating_sub(1);
            }
            self.counts.changed += 1;
            self.counts.changed_new += 1;
            self.record.changes.push(Change::Socket(change));
        }
        self.journal.write(&self.record)
    }

    /// Lists the sockets and treats those that are not known.
    fn look(&mut self, is_later: bool) -> Result<(), TreatError> {
        self.looked = Instant::now();
        let mut look = reach::look(&self.netns, &self.scope, self.peer)?;
        self.forget_closed(&look);
        let planned = planned(&mut look, &self.setting, &mut self.known, &mut self.counts)?;
        if planned.is_empty() {
            return Ok(());
        }
        let first = self.record.changes.len();
        let changes = planned.iter().map(|planned| Change::Socket(planned.change.clone()));
        self.record.changes.extend(changes);
        // On disk before anything is changed.
        self.journal.write(&self.record)?;
        let mut undone = HashSet::new();
        let mut is_other = false;
        for (offset, planned) in planned.iter().enumerate() {
            match self.change(&mut look, planned) {
                Ok(Some(set)) => {
                    self.counts.changed += 1;
                    self.counts.changed_new += u64::from(is_later);
                    let Change::Socket(change) = &mut self.record.changes[first + offset] else {
                        continue;
                    };
                    is_other |= change.set != set;
                    change.set = set;
                }
                Ok(None) => {
                    self.counts.changed_meanwhile += 1;
                    undone.insert(planned.change.cookie);
                }
                Err(error) => {
                    self.counts.refused += u64::from(!is_gone(&error));
                    self.refused = Some(error);
                    undone.insert(planned.change.cookie);
                }
            }
        }
        if is_other || !undone.is_empty() {
            let is_done = |change: &Change| match change {
                Change::Socket(socket) => !undone.contains(&socket.cookie),
                _ => true,
            };
            self.record.changes.retain(is_done);
            self.journal.write(&self.record)?;
        }
        Ok(())
    }

    /// Sets one socket and returns its new value, which the kernel may have bounded; `None` if the
    /// application has changed it meanwhile.
    fn change(&self, look: &mut reach::Look, planned: &Planned) -> io::Result<Option<Value>> {
        let change = &planned.change;
        let socket = look.open(planned.holder, change.cookie)?;
        let socket = socket.as_fd();
        if !self.setting.read(socket)?.is_still(&change.before) {
            return Ok(None);
        }
        change.set.write(socket, &self.setting, &change.before)?;
        match self.setting {
            // The kernel switches it off when data is sent.
            Setting::Quickack => Ok(Some(change.set.clone())),
            _ => self.setting.read(socket).map(Some),
        }
    }

    /// Sockets that have closed need not be restored.
    fn forget_closed(&mut self, look: &reach::Look) {
        let open = &look.open;
        self.known.retain(|cookie| open.contains(cookie));
        self.record.changes.retain(|change| match change {
            Change::Socket(socket) => open.contains(&socket.cookie),
            _ => true,
        });
    }

    /// Sets `TCP_QUICKACK` again, and by that sends an ACK that waits.
    fn set_again(&mut self) {
        let Ok(mut look) = reach::look(&self.netns, &self.scope, self.peer) else { return };
        for found in std::mem::take(&mut look.found) {
            let Some(holder) = found.holder else { continue };
            if !self.known.contains(&found.entry.cookie) {
                continue;
            }
            if let Ok(socket) = look.open(holder, found.entry.cookie) {
                let on = Value::Switch(true);
                let _ = on.write(socket.as_fd(), &self.setting, &on);
            }
        }
    }

    /// Keeps the changes. They stay in the journal until they are undone; connections that open
    /// later are not treated.
    ///
    /// # Errors
    /// The journal cannot be written; then the changes are undone.
    pub fn keep(mut self) -> Result<(), TreatError> {
        if let Some(hook) = self.hook.take() {
            let events = hook.detach();
            undo::add_of_hook(&mut self.record, &self.setting, &events);
        }
        self.record.state = Lifetime::Kept;
        if let Err(error) = self.journal.write(&self.record) {
            return Err(self.end().after(error));
        }
        self.is_over = true;
        undo::forget_hook(&self.record);
        Ok(())
    }

    /// Restores what was there.
    pub fn undo(mut self) -> undo::Undone {
        self.end()
    }

    fn end(&mut self) -> undo::Undone {
        self.is_over = true;
        // Connections that open from now on are as they were before. What the hook did until then is
        // in its map, of which another process may have removed the pin.
        if let Some(hook) = self.hook.take() {
            undo::add_of_hook(&mut self.record, &self.setting, &hook.detach());
        }
        undo::restore(&self.journal, &self.record)
    }
}

impl Drop for Treatment {
    fn drop(&mut self) {
        if !self.is_over {
            // Changes that cannot be restored stay in the journal.
            self.end();
        }
    }
}
