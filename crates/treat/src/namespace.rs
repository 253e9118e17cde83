//! Network namespaces in the journal. An inode number alone does not name one: the kernel gives the
//! number of a namespace that has ended to a new one.

use std::io;

use serde::{Deserialize, Serialize};

use super::error::TreatError;
use super::system;
use tcpwhy_live::netns::Netns;

/// A network namespace, as a record names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Inode of the namespace.
    pub netns: u64,
    /// The kernel's number of the namespace (`SO_NETNS_COOKIE`), which no other one gets until a
    /// reboot; `None` where the kernel is older than Linux 5.14.
    pub netns_cookie: Option<u64>,
    /// Name of the namespace; `None` for the caller's own.
    pub netns_name: Option<String>,
}

impl Namespace {
    /// Returns the name of a namespace for the journal.
    pub(super) fn of(netns: &Netns) -> Result<Self, TreatError> {
        Ok(Self {
            netns: netns.inode,
            netns_cookie: netns.cookie()?,
            netns_name: netns.name.clone(),
        })
    }

    /// Returns whether both are one namespace.
    pub fn is(&self, other: &Self) -> bool {
        let is_other =
            self.netns_cookie.zip(other.netns_cookie).is_some_and(|(one, other)| one != other);
        self.netns == other.netns && !is_other
    }

    /// Finds the namespace; `None` if it has ended, with all that was in it.
    ///
    /// # Errors
    /// It cannot be known whether it has ended.
    pub(super) fn find(&self) -> io::Result<Option<Netns>> {
        let Some(netns) = Netns::with_inode(self.netns) else {
            if system::may_look_into_others() {
                return Ok(None);
            }
            return Err(io::Error::other(
                "its network namespace is not found among the processes that may be looked into, \
                 which needs CAP_SYS_PTRACE: use sudo",
            ));
        };
        let netns = netns.held().map_err(io::Error::other)?;
        let found = Self::of(&netns).map_err(io::Error::other)?;
        Ok(self.is(&found).then_some(netns))
    }

    /// Finds the namespace for a change.
    ///
    /// # Errors
    /// It has ended, or cannot be found.
    pub(super) fn open(&self) -> io::Result<Netns> {
        self.find()?.ok_or_else(|| io::Error::other("its network namespace is gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_the_number_of_one_that_ended_is_another() {
        let own = Namespace::of(&Netns::own()).unwrap();
        assert!(own.find().unwrap().is_some());
        let Some(cookie) = own.netns_cookie else { return };
        let ended = Namespace { netns_cookie: Some(cookie + 1), ..own.clone() };
        assert!(ended.find().unwrap().is_none() && !own.is(&ended));
        let of_old_kernel = Namespace { netns_cookie: None, ..own.clone() };
        assert!(own.is(&of_old_kernel));
    }
}
