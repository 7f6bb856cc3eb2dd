//! Communicators of our own, for programs whose runtime lends none.
//!
//! NCCL makes a communicator among all who show the same unique id. How the id travels depends on where
//! the devices are: threads of one process find it in a registry here, under a key that all of them know;
//! between processes the caller carries it and puts it into each process's registry.

use super::{OWN_COMMUNICATORS, Parent, check, int, lock, made_by, settle};
use crate::device::cuda::CudaDevice;
use crate::libraries;
use crate::{Error, Result};
use nccl_sys::{ncclConfig_t, ncclUniqueId};
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};

/// Bytes of a unique id.
pub const UNIQUE_ID_BYTES: usize = nccl_sys::NCCL_UNIQUE_ID_BYTES as usize;

/// Where the devices of a communicator are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// All in this process: the first to come makes the unique id.
    ThisProcess,
    /// In several processes: each was given the same unique id by [`register_unique_id`] before.
    SeveralProcesses,
}

static IDS: LazyLock<Mutex<HashMap<String, [u8; UNIQUE_ID_BYTES]>>> = LazyLock::new(Mutex::default);

/// A fresh unique id, to be carried to every process of a program.
///
/// # Errors
/// NCCL is missing or finds no network interface.
pub fn new_unique_id() -> Result<[u8; UNIQUE_ID_BYTES]> {
    let nccl = libraries::nccl()?;
    let mut id = ncclUniqueId { internal: [0; UNIQUE_ID_BYTES] };
    // SAFETY: writes one id.
    check(nccl, unsafe { nccl.ncclGetUniqueId(&raw mut id) }, || "making a unique id".into())?;
    Ok(id.internal.map(c_char::cast_unsigned))
}

/// Makes `id` the one under `key` in this process. A key serves for one communicator: another set of
/// devices, or a restarted runtime, needs another key.
pub fn register_unique_id(key: &str, id: [u8; UNIQUE_ID_BYTES]) {
    lock(&IDS).insert(key.to_owned(), id);
}

/// The id under `key`, made here if all members are in this process.
fn unique_id(key: &str, members: Members) -> Result<[u8; UNIQUE_ID_BYTES]> {
    let mut ids = lock(&IDS);
    match (ids.get(key), members) {
        (Some(id), _) => Ok(*id),
        (None, Members::ThisProcess) => {
            let id = new_unique_id()?;
            ids.insert(key.to_owned(), id);
            Ok(id)
        }
        (None, Members::SeveralProcesses) => Err(Error::failed_precondition(format!(
            "no unique id is registered under {key:?} in this process; every process needs the one that the first \
             process made, before the first call"
        ))),
    }
}

/// Tells one kept communicator from another: its key, this device's rank, the size, the device.
type OwnKey = (String, u64, u64, i32);

impl Parent {
    /// A communicator of our own over `size` devices that all name the same `key`, this one as `rank`.
    ///
    /// The first time it is made, which is collective over all of them; later it is looked up.
    ///
    /// # Errors
    /// NCCL is missing or failed; no id is registered for several processes;
    /// [`crate::ErrorKind::DeadlineExceeded`] if a device does not come.
    pub fn own(key: &str, rank: u64, size: u64, members: Members, device: &CudaDevice<'_>) -> Result<Self> {
        static KEPT: LazyLock<Mutex<HashMap<OwnKey, Parent>>> = LazyLock::new(Mutex::default);
        let own_key = (key.to_owned(), rank, size, device.ordinal());
        if let Some(parent) = lock(&KEPT).get(&own_key) {
            return Ok(*parent);
        }
        let nccl = libraries::nccl()?;
        let id = ncclUniqueId { internal: unique_id(key, members)?.map(u8::cast_signed) };
        let doing =
            || format!("rank {rank} of {size} (device {}) joins communicator {key:?}", device.ordinal());
        let [ranks, own_rank] = [int(size)?, int(rank)?];
        // In the background, so that a device which does not come is an error in the end, not a hang.
        let mut config = ncclConfig_t { blocking: 0, commName: c"meshsolve".as_ptr(), ..Default::default() };
        let communicator = made_by(nccl, doing, |slot| {
            // SAFETY: NCCL writes the communicator to the slot, which outlives the call, and copies the
            // configuration.
            let result = unsafe { nccl.ncclCommInitRankConfig(slot, ranks, id, own_rank, &raw mut config) };
            // SAFETY: the slot is only written by this thread before NCCL returns.
            let communicator = unsafe { slot.read_volatile() };
            // SAFETY: NCCL gives the communicator before it begins to work in the background.
            unsafe { settle(nccl, communicator, result, doing) }
        })?;
        let parent = Self { nccl, communicator, rank, size, generation: 0 };
        // The lock was free meanwhile: the other devices of this process join at the same time.
        lock(&KEPT).insert(own_key, parent);
        OWN_COMMUNICATORS.fetch_add(1, Ordering::Relaxed);
        Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_id_is_found_under_its_key_only() {
        let [first, second] = [[1u8; UNIQUE_ID_BYTES], [2; UNIQUE_ID_BYTES]];
        register_unique_id("one set of devices", first);
        register_unique_id("another", second);
        for members in [Members::ThisProcess, Members::SeveralProcesses] {
            assert_eq!(unique_id("one set of devices", members), Ok(first));
            assert_eq!(unique_id("another", members), Ok(second));
        }
        register_unique_id("another", first);
        assert_eq!(unique_id("another", Members::SeveralProcesses), Ok(first));
    }

    #[test]
    fn several_processes_never_make_up_an_id() {
        let error = unique_id("nobody registered this", Members::SeveralProcesses).expect_err("no id");
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        assert!(error.to_string().contains("nobody registered this"), "{error}");
    }
}
