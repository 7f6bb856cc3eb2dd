//! The execute stage on CPU devices.
//!
//! Each device's call checks its operands and deposits them at a rendezvous together with an XLA
//! future, then returns. The last one hands the job to our own threads, which run the routine on
//! all ranks and complete all futures. No thread of XLA's ever waits here: XLA has only as many as
//! there are devices, and other work of the same program needs them.
//!
//! Every future is completed on a thread of its own, for XLA may run the rest of a device's program
//! in there, and that may wait for the other devices.

use std::env;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, LazyLock, Once};
use std::thread;
use std::time::Duration;

use meshsolve::DType;
use meshsolve::device::Buffer;
use meshsolve::plan::OperandSpec;
use meshsolve::simulate::RankOperands;

use crate::attributes::positive_seconds;
use crate::call::{Call, Operand, Promise, guarded};
use crate::failure::Failure;
use crate::handlers::CallSite;
use crate::rendezvous::{Arrival, Key, Released, Rendezvous, Ticket};
use crate::routine::Routine;
use crate::sys::data_type;
use crate::workers::Workers;

/// What a device deposits.
struct Participant {
    operands: RankOperands,
    promise: Promise,
}

static RENDEZVOUS: LazyLock<Rendezvous<Participant>> = LazyLock::new(Rendezvous::default);
static WORKERS: Workers = Workers::new();

/// The environment variable that says how many seconds devices wait for each other.
pub const PATIENCE_VARIABLE: &str = "MESHSOLVE_RENDEZVOUS_SECONDS";

/// How long devices wait for each other unless the call says otherwise: 60 s, or what
/// [`PATIENCE_VARIABLE`] said when this was first asked.
pub fn default_patience() -> Duration {
    static PATIENCE: LazyLock<Duration> = LazyLock::new(|| {
        let standard = Duration::from_secs(60);
        let Ok(text) = env::var(PATIENCE_VARIABLE) else { return standard };
        text.trim().parse().ok().and_then(positive_seconds).unwrap_or_else(|| {
            eprintln!(
                "meshsolve: {PATIENCE_VARIABLE}={text:?} is not a positive number of seconds; using 60"
            );
            standard
        })
    });
    *PATIENCE
}

/// One device's call.
///
/// # Errors
/// The device's operands do not fit the plan, or the runtime lacks what this needs. Every other
/// failure reaches XLA through the future.
pub fn execute(call: &Call<'_>, site: &CallSite) -> Result<(), Failure> {
    start_watchdog()?;
    let operands = call.operands()?;
    let (rank, group) = rank_and_group(&operands)?;
    let ticket = Ticket {
        key: Key { run: call.run_id()?, call_site: site.id, group },
        rank,
        ranks: site.routine.ranks(),
        device: call.device_ordinal()?,
        patience: site.patience,
    };
    // From here on others may be waiting for this device, so they must learn of its failure.
    let participant = guarded(|| {
        let operands = checked_operands(site.routine.as_ref(), &operands[1..], &call.results()?)
            .map_err(|failure| Failure { message: format!("rank {rank}: {failure}"), ..failure })?;
        Ok(Participant { operands, promise: call.promise()? })
    });
    match participant {
        Ok(participant) => {
            match RENDEZVOUS.arrive(ticket, participant) {
                Arrival::Waiting => {}
                Arrival::Complete(participants) => {
                    let routine = Arc::clone(&site.routine);
                    WORKERS.run(move || run(routine.as_ref(), participants));
                }
                Arrival::Failed(released) => give_back(released),
            }
            Ok(())
        }
        Err(failure) => {
            let released = RENDEZVOUS.fail(ticket, failure);
            let failure = released.failure.clone();
            give_back(released);
            Err(failure)
        }
    }
}

/// Runs the routine and ends the call of every participant.
fn run(routine: &dyn Routine, participants: Vec<Participant>) {
    let (ranks, mut promises): (Vec<_>, Vec<_>) =
        participants.into_iter().map(|p| (p.operands, p.promise)).unzip();
    let outcome = guarded(|| routine.run(ranks));
    let this_threads = promises.pop();
    for promise in promises {
        let outcome = outcome.clone();
        WORKERS.run(move || promise.complete(&outcome));
    }
    if let Some(promise) = this_threads {
        promise.complete(&outcome);
    }
}

fn give_back(released: Released<Participant>) {
    let outcome = Err(released.failure);
    for participant in released.deposits {
        let outcome = outcome.clone();
        WORKERS.run(move || participant.promise.complete(&outcome));
    }
}

fn start_watchdog() -> Result<(), Failure> {
    static STARTED: Once = Once::new();
    let mut outcome = Ok(());
    STARTED.call_once(|| {
        outcome = thread::Builder::new()
            .name("meshsolve-watchdog".into())
            .spawn(|| RENDEZVOUS.watch(give_back))
            .map(drop)
            .map_err(|error| Failure::internal(format!("cannot start the watchdog thread: {error}")));
    });
    outcome
}

/// Operand 0: where this device stands.
fn rank_and_group(operands: &[Operand]) -> Result<(i32, i32), Failure> {
    let wanted = "operand 0 of a meshsolve call must be s32[2], the device's rank in the process grid and \
                  its group";
    let place =
        operands.first().ok_or_else(|| Failure::invalid(format!("{wanted}; there are no operands")))?;
    if place.dtype != data_type::S32 || place.dims != [2] || place.data.is_null() {
        return Err(Failure::invalid(format!("{wanted}; got {}", describe(place.dtype, &place.dims))));
    }
    // SAFETY: checked to hold two such integers; XLA keeps operands valid during the call.
    Ok(unsafe { place.data.cast::<[i32; 2]>().read_unaligned() }.into())
}

/// The memory of one rank, if it is what the plan wants.
fn checked_operands(
    routine: &dyn Routine,
    operands: &[Operand],
    results: &[Operand],
) -> Result<RankOperands, Failure> {
    check("operand", 1, routine.inputs(), operands)?;
    check("result", 0, routine.outputs(), results)?;
    for (spec, result) in routine.outputs().iter().zip(results) {
        let Some(source) = spec.alias.and_then(|input| operands.get(input)) else { continue };
        if source.data != result.data {
            // The alias was not declared to XLA, so the copy that it would have made is ours.
            // SAFETY: both have the same dtype and shape, hence the same length; XLA keeps both
            // valid, and what overlaps is moved correctly.
            unsafe { ptr::copy(source.data, result.data, spec.bytes() as usize) };
        }
    }
    let buffers = |specs: &[OperandSpec], operands: &[Operand]| {
        let windows = specs.iter().zip(operands);
        // SAFETY: XLA keeps the memory valid, and to us alone, until the call's promise ends; the
        // rendezvous and the worker drop these windows before.
        windows.map(|(spec, operand)| unsafe { Buffer::from_raw(operand.data, spec.bytes()) }).collect()
    };
    Ok(RankOperands {
        inputs: buffers(routine.inputs(), operands),
        outputs: buffers(routine.outputs(), results),
    })
}

fn check(what: &str, first: usize, specs: &[OperandSpec], operands: &[Operand]) -> Result<(), Failure> {
    if operands.len() != specs.len() {
        return Err(Failure::invalid(format!(
            "the call has {} {what}s where the plan has {}: {}",
            operands.len() + first,
            specs.len() + first,
            specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ")
        )));
    }
    for (i, (spec, operand)) in specs.iter().zip(operands).enumerate() {
        if operand.dtype != xla_dtype(spec.dtype) || operand.dims != spec.shape {
            return Err(Failure::invalid(format!(
                "{what} {} ({}) is {} where the plan wants {}; the attribute `request` must be the very \
                 request that the shapes were planned with",
                i + first,
                spec.name,
                describe(operand.dtype, &operand.dims),
                describe(xla_dtype(spec.dtype), &spec.shape)
            )));
        }
        if operand.data.is_null() && spec.bytes() > 0 {
            return Err(Failure::internal(format!(
                "XLA gave no memory for {what} {} ({})",
                i + first,
                spec.name
            )));
        }
    }
    Ok(())
}

fn xla_dtype(dtype: DType) -> c_int {
    match dtype {
        DType::F32 => data_type::F32,
        DType::F64 => data_type::F64,
        DType::C64 => data_type::C64,
        DType::C128 => data_type::C128,
        DType::I32 => data_type::S32,
    }
}

/// An array type as XLA prints it: `f64[500,3]`.
fn describe(dtype: c_int, dims: &[u64]) -> String {
    let name = match dtype {
        data_type::PRED => "pred",
        data_type::S8 => "s8",
        data_type::S16 => "s16",
        data_type::S32 => "s32",
        data_type::S64 => "s64",
        data_type::U8 => "u8",
        data_type::U16 => "u16",
        data_type::U32 => "u32",
        data_type::U64 => "u64",
        data_type::F16 => "f16",
        data_type::BF16 => "bf16",
        data_type::F32 => "f32",
        data_type::F64 => "f64",
        data_type::C64 => "c64",
        data_type::C128 => "c128",
        _ => "dtype ?",
    };
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("{name}[{}]", dims.join(","))
}
