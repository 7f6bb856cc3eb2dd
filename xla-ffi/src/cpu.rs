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
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use meshsolve::simulate::RankOperands;

use crate::attributes::positive_seconds;
use crate::call::{Call, Operand, Promise, guarded};
use crate::failure::Failure;
use crate::handlers::CallSite;
use crate::operands::{self, MissingCopy, describe};
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
    let place = call.operands()?;
    let (rank, group) = rank_and_group(&place)?;
    let ticket = Ticket {
        key: Key { run: call.run_id()?, call_site: site.id, group },
        rank,
        ranks: site.routine.ranks(),
        device: call.device_ordinal()?,
        patience: site.patience,
    };
    // From here on others may be waiting for this device, so they must learn of its failure.
    let participant = guarded(|| {
        // SAFETY: XLA keeps the memory valid, and to us alone, until the call's promise ends; the
        // rendezvous and the worker drop these buffers before.
        let (operands, copies) =
            unsafe { operands::checked(site.routine.as_ref(), &place[1..], &call.results()?) }
                .map_err(|failure| Failure { message: format!("rank {rank}: {failure}"), ..failure })?;
        for MissingCopy { from, to } in copies {
            // SAFETY: both are as long as the plan says; what overlaps is moved correctly.
            unsafe {
                ptr::copy(from.address() as *const u8, to.address() as *mut u8, to.bytes() as usize);
            }
        }
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
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_started {
        thread::Builder::new()
            .name("meshsolve-watchdog".into())
            .spawn(|| RENDEZVOUS.watch(give_back))
            .map_err(|error| Failure::internal(format!("cannot start the watchdog thread: {error}")))?;
        *is_started = true;
    }
    Ok(())
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
