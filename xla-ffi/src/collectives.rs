//! Borrowing XLA's own communicator through the collectives extension.
//!
//! GPU plugins offer it from jax 0.11.2 on. A communicator is requested in the prepare stage and
//! got in the execute stage, with the same group and id; both times the extension must be looked
//! up anew, for it lives during one handler call only.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use crate::call::{Call, slot};
use crate::failure::Failure;
use crate::sys;

/// The communicator that XLA uses for its own collectives. Any other id would make a new one.
pub const SHARED_COMMUNICATOR: i64 = 0;

/// The extension, during one handler call.
pub struct Collectives<'call> {
    call: &'call Call<'call>,
    extension: &'call sys::CollectivesExtension,
}

impl<'call> Collectives<'call> {
    /// Looks the extension up; `None` if this runtime has none, or none that we understand.
    ///
    /// # Errors
    /// XLA's own.
    pub fn find(call: &'call Call<'call>) -> Result<Option<Self>, Failure> {
        let Some(find) = slot!(call.api(), find_extension) else { return Ok(None) };
        let mut args = sys::FindExtensionArgs {
            struct_size: size_of::<sys::FindExtensionArgs>(),
            extension_start: ptr::null_mut(),
            ctx: call.context(),
            extension_type: sys::EXTENSION_COLLECTIVES,
            extension: ptr::null(),
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        call.api().check(unsafe { find(&mut args) })?;
        // SAFETY: an extension is valid during the handler call.
        let Some(base) = (unsafe { args.extension.as_ref() }) else { return Ok(None) };
        // Minors of major 0 append fields; the size says whether those that we need are there.
        if base.id.major_version != 0 || base.struct_size < size_of::<sys::CollectivesExtension>() {
            return Ok(None);
        }
        // SAFETY: type, major and size say that this is the struct.
        let extension = unsafe { &*args.extension.cast::<sys::CollectivesExtension>() };
        Ok(Some(Self { call, extension }))
    }

    /// Asks for a communicator of the devices with the given flattened ids (in a `shard_map`
    /// program: positions in its device list). In the prepare stage only.
    ///
    /// # Errors
    /// XLA's own, for instance in another stage.
    pub fn request(&self, devices: &[i64], communication_id: i64) -> Result<(), Failure> {
        let request = self.extension.request_communicator.ok_or_else(incomplete)?;
        let group = sys::ReplicaGroup { ids: devices.as_ptr(), size: devices.len() };
        let mut args = sys::RequestCommunicatorArgs {
            struct_size: size_of::<sys::RequestCommunicatorArgs>(),
            extension_start: ptr::null_mut(),
            group_mode: sys::GROUP_MODE_FLATTENED_ID,
            groups: &raw const group,
            num_groups: 1,
            communication_id,
        };
        // SAFETY: the arguments are complete and outlive the call; XLA copies the group.
        self.call.api().check(unsafe { request(self.extension, &mut args) })
    }

    /// The communicator requested before with the same arguments: on GPUs an `ncclComm_t` that
    /// remains XLA's. In the initialize and execute stages only.
    ///
    /// # Errors
    /// XLA's own, for instance when it was not requested.
    pub fn get(&self, devices: &[i64], communication_id: i64) -> Result<NonNull<c_void>, Failure> {
        let get = self.extension.get_communicator.ok_or_else(incomplete)?;
        let group = sys::ReplicaGroup { ids: devices.as_ptr(), size: devices.len() };
        let mut args = sys::GetCommunicatorArgs {
            struct_size: size_of::<sys::GetCommunicatorArgs>(),
            extension_start: ptr::null_mut(),
            group_mode: sys::GROUP_MODE_FLATTENED_ID,
            groups: &raw const group,
            num_groups: 1,
            communication_id,
            communicator: ptr::null_mut(),
        };
        // SAFETY: the arguments are complete and outlive the call.
        self.call.api().check(unsafe { get(self.extension, &mut args) })?;
        NonNull::new(args.communicator)
            .ok_or_else(|| Failure::internal("XLA gave a null pointer for its communicator"))
    }
}

fn incomplete() -> Failure {
    Failure::unsupported("XLA's collectives extension lacks a function; use jax 0.11.2 or newer")
}
