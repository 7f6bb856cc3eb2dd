//! The execute stage on GPUs: one device's part of a call, enqueued on XLA's stream.
//!
//! XLA calls the handler once for each device, on a thread of its own. Ranks talk through a
//! communicator that was split once from XLA's, or from one of our own where XLA lends none.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use meshsolve::communicator::nccl::{self, Members, NcclCommunicator, NcclGroup, Parent, UNIQUE_ID_BYTES};
use meshsolve::device::Device;
use meshsolve::device::cuda::{CudaDevice, StreamMemory};
use meshsolve::routines::{Backend, Operands};
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::{DType, Error};

use crate::call::Call;
use crate::collectives::{Collectives, SHARED_COMMUNICATOR};
use crate::failure::Failure;
use crate::handlers::CallSite;
use crate::operands::{self, MissingCopy};
use crate::workspace;

/// The environment variable that asks for communicators of our own (`own`).
pub const COMMUNICATOR_VARIABLE: &str = "MESHSOLVE_COMM";

/// Where each device of the program's mesh stands, by its position in the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// The number by which all processes know the device.
    pub device_ids: Vec<i64>,
    /// Group · ranks of a grid + place in the grid, row by row.
    pub places: Vec<u64>,
}

/// A device of this process: the driver's number, and the number by which all processes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDevice {
    /// The driver's number.
    pub ordinal: i32,
    /// The global number.
    pub id: i64,
}

static LOCAL_DEVICES: LazyLock<Mutex<Vec<LocalDevice>>> = LazyLock::new(Mutex::default);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Tells which devices this process drives. Called anew when JAX's client was replaced, so that
/// nothing kept for the old one is taken for the new one's.
pub fn set_local_devices(devices: Vec<LocalDevice>) {
    *LOCAL_DEVICES.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// XLA's allocator during one call.
struct XlaMemory<'call> {
    call: &'call Call<'call>,
}

// SAFETY: used on the thread of the call only; `StreamMemory` asks for `Sync` because devices do.
unsafe impl Sync for XlaMemory<'_> {}

impl StreamMemory for XlaMemory<'_> {
    fn allocate(&self, bytes: u64) -> meshsolve::Result<u64> {
        let memory = usize::try_from(bytes).ok().map(|bytes| self.call.allocate(bytes));
        match memory {
            Some(Ok(data)) => Ok(data.as_ptr() as u64),
            Some(Err(failure)) => Err(Error::resource_exhausted(format!(
                "XLA gave no {bytes} bytes of device memory for scratch and workspace: {failure}. A smaller tile \
                 needs less; so does donate=True"
            ))),
            None => Err(Error::resource_exhausted(format!("{bytes} bytes are beyond this machine"))),
        }
    }

    fn release(&self, address: u64, bytes: u64) {
        // Nobody could act on an error here; XLA reports its own at the end of the program.
        let _ = self.call.free(address as *mut c_void, bytes as usize);
    }
}

/// One device's call.
///
/// # Errors
/// The same on all devices of the grid, once they can talk to each other.
pub fn execute(call: &Call<'_>, site: &CallSite) -> Result<(), Failure> {
    let stream = call.stream()?;
    let memory = XlaMemory { call };
    // SAFETY: XLA's stream is live during the call and never the null stream.
    let device = unsafe { CudaDevice::new(stream.as_ptr().cast(), &memory)? };
    let mesh = site.mesh.as_ref().ok_or_else(|| {
        Failure::invalid("a meshsolve call on GPUs has no attributes `device_ids` and `places`")
    })?;
    let position = position(mesh, device.ordinal())?;
    let roles = site.routine.roles();
    let (group, role) = group_and_role(mesh.places[position], roles);
    let parent = parent(call, mesh, position, &device)?;
    let group = NcclGroup::split(&parent, &device, group, role, &division(mesh, roles))?;
    // SAFETY: the group was split on this device just now or in an earlier call.
    let communicator = unsafe { NcclCommunicator::new(group, &device) };
    // A redistribution works where cuSOLVERMp is not installed.
    let solver = (site.routine.needs_solver())
        .then(|| CusolverMpSolver::new(&communicator, &device, site.routine.grid()))
        .transpose()?;
    let operands =
        own_operands(call, site, &device).map_err(|failure| Error::invalid_argument(failure.message));
    let backend = Backend {
        device: &device,
        communicator: &communicator,
        solver: solver.as_ref().map(|solver| solver as _),
    };
    site.routine.run_rank(&backend, operands)?;
    if let Some(solver) = &solver {
        workspace::note(site.routine.fingerprint(), solver.most_scratch());
    }
    Ok(())
}

fn own_operands(call: &Call<'_>, site: &CallSite, device: &CudaDevice<'_>) -> Result<Operands, Failure> {
    let device: &dyn Device = device;
    let inputs = call.operands()?;
    // SAFETY: everything is enqueued on XLA's stream, in whose order the memory stays valid.
    let (operands, copies) = unsafe {
        operands::checked(site.routine.as_ref(), inputs.get(1..).unwrap_or_default(), &call.results()?)?
    };
    for MissingCopy { from, to } in copies {
        let words = to.bytes() / DType::F32.size();
        device.copy_lines(DType::F32, from, words, to, words, words, 1)?;
    }
    Ok(Operands { inputs: operands.inputs, outputs: operands.outputs })
}

/// The group of the device at a place, and the rank that it plays there.
fn group_and_role(place: u64, roles: &[u64]) -> (u64, u64) {
    let ranks = roles.len() as u64;
    // Below `ranks`, which is a length.
    (place / ranks, roles[(place % ranks) as usize])
}

/// How the devices are divided into grids, and which ranks they play, in the same words on each of them.
fn division(mesh: &Mesh, roles: &[u64]) -> Vec<u64> {
    let ids = mesh.device_ids.iter().map(|id| id.cast_unsigned());
    let each = ids.zip(&mesh.places).flat_map(|(id, &place)| {
        let (group, role) = group_and_role(place, roles);
        [id, group, role]
    });
    std::iter::once(roles.len() as u64).chain(each).collect()
}

/// Where this device stands in the mesh.
fn position(mesh: &Mesh, ordinal: i32) -> Result<usize, Failure> {
    let devices = LOCAL_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let id =
        devices.iter().find(|device| device.ordinal == ordinal).map(|device| device.id).ok_or_else(|| {
            Failure::internal(format!("nobody told meshsolve the global number of local device {ordinal}"))
        })?;
    mesh.device_ids.iter().position(|&other| other == id).ok_or_else(|| {
        Failure::invalid(format!("device {id} runs a program whose mesh is {:?}", mesh.device_ids))
    })
}

/// The communicator over all devices of the program.
fn parent(call: &Call<'_>, mesh: &Mesh, position: usize, device: &CudaDevice<'_>) -> Result<Parent, Failure> {
    if !own_communicators()
        && let Some(collectives) = Collectives::find(call)?
    {
        let communicator: NonNull<c_void> = collectives.get(&all(mesh), SHARED_COMMUNICATOR)?;
        // SAFETY: XLA keeps the communicator of its clique; it is for this call's device, whose context
        // is current.
        return Ok(unsafe { Parent::borrowed(communicator.as_ptr(), GENERATION.load(Ordering::Relaxed))? });
    }
    let members = {
        let local = LOCAL_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let is_local = |id: &i64| local.iter().any(|device| device.id == *id);
        if mesh.device_ids.iter().all(is_local) { Members::ThisProcess } else { Members::SeveralProcesses }
    };
    let key = own_key(&mesh.device_ids);
    Ok(Parent::own(&key, position as u64, mesh.device_ids.len() as u64, members, device)?)
}

/// The flattened ids of all devices of the program, as XLA's collectives want them.
pub fn all(mesh: &Mesh) -> Vec<i64> {
    (0..).take(mesh.device_ids.len()).collect()
}

/// Makes `id` the unique id of the communicator among these devices, for programs of several processes.
pub fn register_unique_id(device_ids: &[i64], id: [u8; UNIQUE_ID_BYTES]) {
    nccl::register_unique_id(&own_key(device_ids), id);
}

/// Whether the user asked for communicators of our own; read once.
pub fn own_communicators() -> bool {
    static OWN: LazyLock<bool> =
        LazyLock::new(|| std::env::var(COMMUNICATOR_VARIABLE).is_ok_and(|value| value == "own"));
    *OWN
}

/// The registry key of the communicator among these devices.
fn own_key(device_ids: &[i64]) -> String {
    let generation = GENERATION.load(Ordering::Relaxed);
    let ids: Vec<String> = device_ids.iter().map(i64::to_string).collect();
    format!("devices {} of client {generation}", ids.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_roles_are_another_division() {
        let mesh = Mesh { device_ids: (10..18).collect(), places: vec![4, 5, 6, 7, 0, 1, 2, 3] };
        let (in_order, transposed) = ([0, 1, 2, 3], [0, 2, 1, 3]);
        assert_eq!(group_and_role(6, &transposed), (1, 1));
        // Devices 10 and 13 have the same group and role in both, and must split anew all the same.
        for place in [4, 7] {
            assert_eq!(group_and_role(place, &in_order), group_and_role(place, &transposed));
        }
        assert_ne!(division(&mesh, &in_order), division(&mesh, &transposed));
        assert_ne!(division(&mesh, &in_order), division(&mesh, &[0, 1]));
    }
}
