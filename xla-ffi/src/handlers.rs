//! The handlers of the FFI target `meshsolve`, one for each stage of a call.
//!
//! Attributes of a call: `request` (the JSON text given to `meshsolve_plan`); optional
//! `rendezvous_seconds` (how long CPU devices wait for each other); on GPUs `device_ids` and `places`
//! (the devices of the whole program's mesh in order, and where each stands: group · ranks + place).
//! Operands: s32\[2\] with the device's place in the grid that A is sharded over, counted row by row, and
//! its group, then the plan's inputs. Results: the plan's outputs. Which rank of the solver's grid a
//! device at a place plays is up to the plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::call::{Call, enter};
use crate::collectives::{Collectives, SHARED_COMMUNICATOR};
use crate::failure::Failure;
use crate::gpu::{self, Mesh};
use crate::routine::{self, Routine};
use crate::state::StateType;
use crate::{attributes, cpu, sys};

/// What XLA keeps for one call of a compiled program. All devices of the process share it.
pub struct CallSite {
    /// Tells call sites apart, over the whole life of the process.
    pub id: u64,
    /// What the call runs.
    pub routine: Arc<dyn Routine>,
    /// How long devices wait for each other on CPUs.
    pub patience: Duration,
    /// The devices of the whole program; GPU calls need it.
    pub mesh: Option<Mesh>,
}

static CALL_SITE: StateType<CallSite> = StateType::new("meshsolve.CallSite");

/// Instantiate stage: plans the call, once for each call site of a program.
///
/// # Safety
/// For XLA only: `frame` must be a valid call frame.
pub unsafe extern "C" fn instantiate(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, |call| instantiate_with(call, routine::plan)) }
}

/// Prepare stage, which only GPU runtimes call: asks for XLA's communicator of all devices.
///
/// # Safety
/// For XLA only: `frame` must be a valid call frame.
pub unsafe extern "C" fn prepare(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, request_communicator) }
}

/// Execute stage on CPU devices: one device's part of a call.
///
/// # Safety
/// For XLA only: `frame` must be a valid call frame.
pub unsafe extern "C" fn execute_on_cpu(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, |call| cpu::execute(call, CALL_SITE.get(call)?)) }
}

/// Execute stage on GPUs: one device's part of a call.
///
/// # Safety
/// For XLA only: `frame` must be a valid call frame.
pub unsafe extern "C" fn execute_on_gpu(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, |call| gpu::execute(call, CALL_SITE.get(call)?)) }
}

/// [`instantiate`] with a planner of the caller's choice, by which tests bring routines that
/// misbehave.
///
/// # Errors
/// An attribute is wrong, `plan` fails, or XLA does not take the state.
pub fn instantiate_with(
    call: &Call<'_>,
    plan: impl FnOnce(&str) -> Result<Arc<dyn Routine>, Failure>,
) -> Result<(), Failure> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let routine = plan(&attributes::request(call)?)?;
    let patience = attributes::patience(call)?.unwrap_or_else(cpu::default_patience);
    let mesh = attributes::mesh(call, routine.ranks())?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    CALL_SITE.set(call, CallSite { id, routine, patience, mesh })
}

/// The communicator spans all devices of the program, of whatever group: it is XLA's own then, and
/// splitting it serves every grid. Without the extension the execute stage brings its own.
fn request_communicator(call: &Call<'_>) -> Result<(), Failure> {
    let site = CALL_SITE.get(call)?;
    if let (Some(mesh), false) = (&site.mesh, gpu::own_communicators())
        && let Some(collectives) = Collectives::find(call)?
    {
        collectives.request(&gpu::all(mesh), SHARED_COMMUNICATOR)?;
    }
    Ok(())
}
