//! The handlers under a stand-in for XLA, from metadata to the last future, in every version.

mod fake_xla;

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fake_xla::{Array, CallArguments, CallSite, OLD, Outcome, Runtime, Status, VERSIONS, Value, Version};
use meshsolve::DType;
use meshsolve::device::Buffer;
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::OperandSpec;
use meshsolve::routines::{Backend, Operands};
use meshsolve::simulate::RankOperands;
use meshsolve_xla_ffi::call::enter;
use meshsolve_xla_ffi::collectives::{Collectives, SHARED_COMMUNICATOR};
use meshsolve_xla_ffi::exports::meshsolve_handlers;
use meshsolve_xla_ffi::failure::{Failure, FailureKind};
use meshsolve_xla_ffi::handlers::instantiate_with;
use meshsolve_xla_ffi::routine::Routine;
use meshsolve_xla_ffi::sys;

const LATEST: Version = VERSIONS[VERSIONS.len() - 1];

/// How a test routine behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Good,
    Fails,
    Panics,
}

/// Gives each rank the values of the next rank, and counts them.
struct Rotate {
    ranks: usize,
    manner: Manner,
    inputs: [OperandSpec; 1],
    outputs: [OperandSpec; 2],
}

const ROWS: usize = 2;
const COLUMNS: usize = 3;
const DIMS: &[i64] = &[ROWS as i64, COLUMNS as i64];

impl Rotate {
    fn new(ranks: usize, manner: Manner) -> Self {
        let spec = |name, dtype, shape, alias| OperandSpec { name, dtype, shape, alias };
        let shape = vec![ROWS as u64, COLUMNS as u64];
        Self {
            ranks,
            manner,
            inputs: [spec("a", DType::F64, shape.clone(), None)],
            outputs: [spec("work", DType::F64, shape, Some(0)), spec("count", DType::I32, vec![1], None)],
        }
    }
}

fn values(buffer: &Buffer) -> *mut [f64; ROWS * COLUMNS] {
    assert_eq!(buffer.bytes(), 8 * (ROWS * COLUMNS) as u64);
    buffer.address() as *mut _
}

impl Routine for Rotate {
    fn grid(&self) -> ProcessGrid {
        ProcessGrid::new(1, self.ranks as u64)
    }

    fn needs_solver(&self) -> bool {
        false
    }

    fn fingerprint(&self) -> u64 {
        self.ranks as u64
    }

    fn run_rank(&self, _: &Backend<'_>, _: meshsolve::Result<Operands>) -> Result<(), Failure> {
        Err(Failure::unsupported("a routine for CPU tests"))
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn inputs(&self) -> &[OperandSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[OperandSpec] {
        &self.outputs
    }

    fn roles(&self) -> &[u64] {
        &[]
    }

    fn run(&self, ranks: Vec<RankOperands>) -> Result<(), Failure> {
        match self.manner {
            Manner::Good => {}
            Manner::Fails => return Err(Failure::new(FailureKind::ResourceExhausted, "too late to be true")),
            Manner::Panics => panic!("boom {}", 40 + 2),
        }
        assert_eq!(ranks.len(), self.ranks);
        // SAFETY: the tests keep their arrays alive; work holds what a held.
        let all: Vec<_> = ranks.iter().map(|rank| unsafe { values(&rank.outputs[0]).read() }).collect();
        for (i, rank) in ranks.iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                values(&rank.outputs[0]).write(all[(i + 1) % all.len()]);
                (rank.outputs[1].address() as *mut i32).write((ROWS * COLUMNS * all.len()) as i32);
            }
        }
        Ok(())
    }
}

/// Requests look like `rotate 4`.
fn plan(request: &str) -> Result<Arc<dyn Routine>, Failure> {
    let wrong = || Failure::invalid(format!("no test routine is called {request:?}"));
    let (name, ranks) = request.split_once(' ').ok_or_else(wrong)?;
    let manner = match name {
        "rotate" => Manner::Good,
        "fail" => Manner::Fails,
        "panic" => Manner::Panics,
        "panic-at-once" => panic!("boom in the plan"),
        _ => return Err(wrong()),
    };
    Ok(Arc::new(Rotate::new(ranks.parse().map_err(|_| wrong())?, manner)))
}

unsafe extern "C" fn instantiate(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the runtime's promise.
    unsafe { enter(frame, |call| instantiate_with(call, plan)) }
}

/// The handler that Python would register.
fn exported(stage: &str) -> sys::Handler {
    let mut count = 0;
    // SAFETY: the table holds `count` entries of constant text and code.
    unsafe {
        let table = meshsolve_handlers(&raw mut count);
        let entry = std::slice::from_raw_parts(table, count)
            .iter()
            .find(|entry| CStr::from_ptr(entry.stage).to_str() == Ok(stage))
            .expect("a handler for each stage");
        assert_eq!(CStr::from_ptr(entry.target), c"meshsolve");
        assert_eq!(CStr::from_ptr(entry.platform), c"cpu");
        std::mem::transmute::<*const std::ffi::c_void, sys::Handler>(entry.function)
    }
}

fn instantiated(runtime: &Runtime, request: &'static str, seconds: f64) -> Result<CallSite, Status> {
    let attributes = vec![("rendezvous_seconds", Value::F64(seconds)), ("request", Value::Text(request))];
    instantiated_with(runtime, attributes)
}

fn instantiated_with(runtime: &Runtime, attributes: Vec<(&'static str, Value)>) -> Result<CallSite, Status> {
    let site = runtime.call_site();
    let call = CallArguments {
        stage: sys::stage::INSTANTIATE,
        run_id: 0,
        device: 0,
        attributes,
        operands: vec![],
        results: vec![],
    };
    runtime.call(instantiate, &site, call).wait().map(|()| site)
}

fn new_run() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(-1000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One device's arrays.
struct Device {
    rank: i32,
    place: [i32; 2],
    a: [f64; ROWS * COLUMNS],
    work: [f64; ROWS * COLUMNS],
    count: i32,
    /// Whether XLA gives `a` and `work` one memory.
    aliased: bool,
}

impl Device {
    fn new(rank: i32, group: i32) -> Self {
        let a = std::array::from_fn(|i| 1000.0 * f64::from(group) + 100.0 * f64::from(rank) + i as f64);
        Self { rank, place: [rank, group], a, work: [f64::NAN; 6], count: -1, aliased: rank % 2 == 0 }
    }

    fn arguments(&mut self, run_id: i64) -> CallArguments<'static> {
        let a = (&raw mut self.a).cast();
        let work = if self.aliased { a } else { (&raw mut self.work).cast() };
        CallArguments {
            stage: sys::stage::EXECUTE,
            run_id,
            // Not the rank, so that taking one for the other shows.
            device: self.place[1] * 64 + 63 - self.rank,
            attributes: vec![],
            operands: vec![
                Array { dtype: 4, dims: &[2], data: (&raw mut self.place).cast() },
                Array { dtype: 12, dims: DIMS, data: a },
            ],
            results: vec![
                Array { dtype: 12, dims: DIMS, data: work },
                Array { dtype: 4, dims: &[1], data: (&raw mut self.count).cast() },
            ],
        }
    }

    /// What the device must hold at the end, from the definition of the test routine.
    fn check(&self, ranks: i32) {
        let next = Device::new((self.rank + 1) % ranks, self.place[1]);
        assert_eq!(if self.aliased { self.a } else { self.work }, next.a, "rank {}", self.rank);
        assert_eq!(self.count, ranks * 6);
    }
}

fn message(outcome: &Outcome) -> String {
    outcome.wait().expect_err("this must fail").message
}

#[test]
fn metadata_names_a_version_that_the_runtime_accepts() {
    for version in VERSIONS.into_iter().chain([OLD]) {
        let runtime = Runtime::new(version);
        for stage in ["instantiate", "prepare", "execute"] {
            let expected = (0, version.minor, 0);
            assert_eq!(runtime.metadata(exported(stage)), expected, "{} {stage}", version.name);
        }
    }
    // A runtime of the future: we name the newest that we know.
    let future = Version { minor: 9, ..LATEST };
    assert_eq!(Runtime::new(future).metadata(exported("execute")), (0, 4, 0));
}

#[test]
fn devices_meet_and_get_their_results_in_every_version() {
    for version in VERSIONS {
        let runtime = Runtime::new(version);
        for (ranks, request) in [(1, "rotate 1"), (2, "rotate 2"), (8, "rotate 8")] {
            let site = instantiated(&runtime, request, 60.0).unwrap();
            let run = new_run();
            let start = Barrier::new(ranks as usize);
            thread::scope(|scope| {
                for rank in 0..ranks {
                    let (runtime, site, start) = (&runtime, &site, &start);
                    scope.spawn(move || {
                        let mut device = Device::new(rank, 0);
                        let arguments = device.arguments(run);
                        start.wait();
                        let outcome = runtime.call(exported("execute"), site, arguments);
                        assert!(matches!(outcome, Outcome::Pending(_)));
                        outcome.wait().unwrap();
                        device.check(ranks);
                    });
                }
            });
        }
    }
    assert!(!fake_xla::OUTSIDE_TABLE.load(Ordering::Relaxed));
}

#[test]
fn no_call_waits_for_another_device() {
    let runtime = Runtime::new(LATEST);
    let site = instantiated(&runtime, "rotate 4", 60.0).unwrap();
    let run = new_run();
    let mut devices: Vec<_> = (0..4).map(|rank| Device::new(rank, 0)).collect();
    // All from this one thread, which only comes through if every call returns at once.
    let outcomes: Vec<_> = devices
        .iter_mut()
        .map(|device| runtime.call(exported("execute"), &site, device.arguments(run)))
        .collect();
    outcomes.iter().for_each(|outcome| outcome.wait().unwrap());
    devices.iter().for_each(|device| device.check(4));
}

#[test]
fn groups_runs_sites_and_rounds_in_flight_do_not_mix() {
    let runtime = Runtime::new(LATEST);
    let sites = [
        instantiated(&runtime, "rotate 2", 60.0).unwrap(),
        instantiated(&runtime, "rotate 2", 60.0).unwrap(),
    ];
    let runs = [new_run(), new_run()];
    let mut parts = Vec::new();
    for (site, run, group, round) in (0..16).map(|i| (i & 1, i >> 1 & 1, (i >> 2 & 1) as i32, i >> 3)) {
        for rank in 0..2 {
            // Each rank goes through all of them in an order of its own; rounds keep theirs.
            let position = if rank == 0 { 0 } else { (site + 2 * run + 4 * group as usize) * 7 % 8 };
            parts.push(((round, position), site, run, Device::new(rank, group)));
        }
    }
    parts.sort_by_key(|&(order, ..)| order);
    let outcomes: Vec<_> = parts
        .iter_mut()
        .map(|(_, site, run, device)| {
            runtime.call(exported("execute"), &sites[*site], device.arguments(runs[*run]))
        })
        .collect();
    outcomes.iter().for_each(|outcome| outcome.wait().unwrap());
    parts.iter().for_each(|(.., device)| device.check(2));
}

/// Where devices of a program wait for each other, as in a collective of XLA's.
#[derive(Default)]
struct Collective {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Collective {
    /// Waits until `count` have come; whether they have.
    fn meet(&self, count: usize) -> bool {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        let patience = Duration::from_secs(20);
        let (arrived, _) =
            self.changed.wait_timeout_while(arrived, patience, |arrived| *arrived < count).unwrap();
        *arrived >= count
    }
}

#[test]
fn the_end_of_a_call_may_wait_for_the_other_devices() {
    let runtime = Runtime::new(LATEST);
    for (request, seconds, last) in [
        // The routine ends well, or it does not.
        ("rotate 4", 60.0, Some(1)),
        ("fail 4", 60.0, Some(1)),
        // The last device fails.
        ("rotate 4", 60.0, Some(-5)),
        // The last device stays away.
        ("rotate 4", 0.2, None),
    ] {
        let site = instantiated(&runtime, request, seconds).unwrap();
        let run = new_run();
        let mut devices: Vec<_> = [0, 2, 3].into_iter().map(|rank| Device::new(rank, 0)).collect();
        let collective = Arc::new(Collective::default());
        let (sender, receiver) = mpsc::channel();
        for device in &mut devices {
            let outcome = runtime.call(exported("execute"), &site, device.arguments(run));
            let Outcome::Pending(future) = outcome else { panic!("no future") };
            let (collective, sender) = (Arc::clone(&collective), sender.clone());
            future.then(move || sender.send(collective.meet(3)).unwrap());
        }
        let mut fourth = Device::new(1, 0);
        if let Some(rank) = last {
            fourth.place[0] = rank;
            let _ = runtime.call(exported("execute"), &site, fourth.arguments(run)).wait();
        }
        for _ in 0..3 {
            let met = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(met, "{request}, last rank {last:?}: a device waited in vain");
        }
    }
}

#[test]
fn a_failure_of_the_routine_reaches_every_device() {
    for version in VERSIONS {
        let runtime = Runtime::new(version);
        for (request, code, text) in [
            ("fail 3", 8, "too late to be true"),
            ("panic 3", 13, "meshsolve panicked, which is a defect of ours: boom 42"),
        ] {
            let site = instantiated(&runtime, request, 60.0).unwrap();
            let run = new_run();
            let mut devices: Vec<_> = (0..3).map(|rank| Device::new(rank, 0)).collect();
            let outcomes: Vec<_> = devices
                .iter_mut()
                .map(|device| runtime.call(exported("execute"), &site, device.arguments(run)))
                .collect();
            for outcome in &outcomes {
                assert_eq!(outcome.wait(), Err(Status { code, message: text.into() }), "{}", version.name);
            }
        }
    }
}

#[test]
fn instantiate_reports_what_is_wrong_with_its_attributes() {
    let runtime = Runtime::new(LATEST);
    let attempt = |attributes: &[(&'static str, Value)]| {
        let site = runtime.call_site();
        let call = CallArguments {
            stage: sys::stage::INSTANTIATE,
            run_id: 0,
            device: 0,
            attributes: attributes.to_vec(),
            operands: vec![],
            results: vec![],
        };
        runtime.call(instantiate, &site, call).wait()
    };
    let request = ("request", Value::Text("rotate 2"));
    assert_eq!(attempt(std::slice::from_ref(&request)), Ok(()));
    assert_eq!(attempt(&[("rendezvous_seconds", Value::I64(3)), request.clone()]), Ok(()));
    for (attributes, code, text) in [
        (vec![], 3, "has no attribute `request`"),
        (vec![("request", Value::I32(7))], 3, "is Integer(7)"),
        (vec![("request", Value::Text("dance 2"))], 3, "no test routine is called \"dance 2\""),
        (vec![("request", Value::Text("panic-at-once 1"))], 13, "boom in the plan"),
        (vec![("rendezvous_seconds", Value::F64(-1.0)), request.clone()], 3, "positive number of seconds"),
        (
            vec![("rendezvous_seconds", Value::F64(f64::NAN)), request.clone()],
            3,
            "positive number of seconds",
        ),
        (vec![("rendezvous_seconds", Value::I64(0)), request.clone()], 3, "positive number of seconds"),
        (vec![("rendezvous_seconds", Value::Text("soon")), request], 3, "positive number of seconds"),
    ] {
        let status = attempt(&attributes).expect_err(text);
        assert!(status.code == code && status.message.contains(text), "{status:?}");
    }
}

#[test]
fn a_device_with_wrong_operands_fails_all_with_one_text() {
    type Spoil = fn(&mut CallArguments<'static>);
    let cases: [(Spoil, &str); 8] = [
        (|c| c.operands[1].dims = &[3, 2], "rank 1: operand 1 (a) is f64[3,2] where the plan wants f64[2,3]"),
        (|c| c.operands[1].dims = &[6], "rank 1: operand 1 (a) is f64[6] where the plan wants f64[2,3]"),
        (|c| c.operands[1].dtype = 15, "rank 1: operand 1 (a) is c64[2,3] where the plan wants f64[2,3]"),
        (|c| c.results[0].dtype = 11, "rank 1: result 0 (work) is f32[2,3] where the plan wants f64[2,3]"),
        (|c| c.results[1].dims = &[], "rank 1: result 1 (count) is s32[] where the plan wants s32[1]"),
        (|c| c.operands.truncate(1), "rank 1: the call has 1 operands where the plan has 2: a"),
        (|c| c.results.truncate(1), "rank 1: the call has 1 results where the plan has 2: work, count"),
        (|c| c.operands[1].data = std::ptr::null_mut(), "rank 1: XLA gave no memory for operand 1 (a)"),
    ];
    for version in [VERSIONS[0], LATEST] {
        let runtime = Runtime::new(version);
        let site = instantiated(&runtime, "rotate 3", 60.0).unwrap();
        for (spoil, text) in &cases {
            // The spoilt one first, in the middle, last.
            for order in [[1, 0, 2], [0, 1, 2], [0, 2, 1]] {
                let run = new_run();
                let mut devices: Vec<_> = order.iter().map(|&rank| Device::new(rank, 0)).collect();
                let outcomes: Vec<_> = devices
                    .iter_mut()
                    .map(|device| {
                        let mut arguments = device.arguments(run);
                        if device.rank == 1 {
                            spoil(&mut arguments);
                        }
                        runtime.call(exported("execute"), &site, arguments)
                    })
                    .collect();
                let messages: Vec<_> = outcomes.iter().map(message).collect();
                assert!(messages[0].starts_with(text), "{messages:?}");
                assert!(messages.iter().all(|other| *other == messages[0]), "{messages:?}");
            }
        }
    }
}

#[test]
fn the_place_operand_must_be_two_integers() {
    let runtime = Runtime::new(LATEST);
    let site = instantiated(&runtime, "rotate 2", 60.0).unwrap();
    type Spoil = fn(&mut CallArguments<'static>);
    let cases: [(Spoil, &str); 3] = [
        (|c| c.operands.clear(), "there are no operands"),
        (|c| c.operands[0].dtype = 5, "got s64[2]"),
        (|c| c.operands[0].dims = &[1, 2], "got s32[1,2]"),
    ];
    for (spoil, text) in cases {
        let mut device = Device::new(0, 0);
        let mut arguments = device.arguments(new_run());
        spoil(&mut arguments);
        let status = runtime.call(exported("execute"), &site, arguments).wait().expect_err(text);
        assert!(status.code == 3 && status.message.contains(text), "{status:?}");
    }
}

#[test]
fn ranks_must_be_different_and_within_the_grid() {
    let runtime = Runtime::new(LATEST);
    let site = instantiated(&runtime, "rotate 2", 60.0).unwrap();
    for (claims, text) in [
        ([0, 2], "device 62 claims rank 2 of a process grid of 2 ranks (group 0)"),
        ([-1, 1], "device 63 claims rank -1 of a process grid of 2 ranks (group 0)"),
        ([1, 1], "device 62 and device 63 both claim rank 1 of the process grid (group 0)"),
    ] {
        let run = new_run();
        let mut devices = [Device::new(0, 0), Device::new(1, 0)];
        let outcomes: Vec<_> = devices
            .iter_mut()
            .zip(claims)
            .map(|(device, claim)| {
                device.place[0] = claim;
                runtime.call(exported("execute"), &site, device.arguments(run))
            })
            .collect();
        for outcome in &outcomes {
            let status = outcome.wait().expect_err(text);
            assert!(status.code == 3 && status.message.contains(text), "{status:?}");
        }
    }
}

#[test]
fn a_device_that_stays_away_is_named() {
    let runtime = Runtime::new(LATEST);
    let site = instantiated(&runtime, "rotate 4", 0.2).unwrap();
    let run = new_run();
    let start = Instant::now();
    let mut devices: Vec<_> = [3, 0].into_iter().map(|rank| Device::new(rank, 2)).collect();
    let outcomes: Vec<_> = devices
        .iter_mut()
        .map(|device| runtime.call(exported("execute"), &site, device.arguments(run)))
        .collect();
    for outcome in &outcomes {
        let Err(Status { code: 4, message }) = outcome.wait() else { panic!("no deadline") };
        let text = format!(
            "only 2 of 4 devices of a process grid came together within 0.2 s (group 2, run {run}): arrived \
             rank 0 (device 191), 3 (device 188); missing rank 1, 2."
        );
        assert!(message.starts_with(&text), "{message}");
    }
    assert!(start.elapsed() >= Duration::from_millis(200));
    // The one that is late hears the same without another wait.
    let mut late = Device::new(1, 2);
    let start = Instant::now();
    let outcome = runtime.call(exported("execute"), &site, late.arguments(run));
    assert_eq!(message(&outcome), message(&outcomes[0]));
    assert!(start.elapsed() < Duration::from_millis(200));
}

#[test]
fn a_runtime_that_is_too_old_is_told_so() {
    let runtime = Runtime::new(OLD);
    let site = instantiated(&runtime, "rotate 1", 60.0).unwrap();
    let status = runtime
        .call(exported("execute"), &site, Device::new(0, 0).arguments(new_run()))
        .wait()
        .expect_err("too old");
    assert_eq!(status.code, 12);
    assert!(status.message.contains("has no run ids") && status.message.contains("jaxlib 0.6.0 or newer"));
    assert!(!fake_xla::OUTSIDE_TABLE.load(Ordering::Relaxed));
}

#[test]
fn an_execute_without_instantiate_reports_what_xla_says() {
    for version in VERSIONS {
        let runtime = Runtime::new(version);
        let site = runtime.call_site();
        let status = runtime
            .call(exported("execute"), &site, Device::new(0, 0).arguments(new_run()))
            .wait()
            .expect_err("no state");
        // The code of an error of XLA's is known from minor 4 on.
        let code: c_int = if version.minor >= 4 { 5 } else { 2 };
        assert_eq!(status, Status { code, message: "State is not set".into() }, "{}", version.name);
    }
}

unsafe extern "C" fn promise_and_panic(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the runtime's promise.
    unsafe {
        enter(frame, |call| {
            let _promise = call.promise()?;
            panic!("after the promise")
        })
    }
}

#[test]
fn a_panic_after_the_promise_is_an_error_without_a_future() {
    let runtime = Runtime::new(LATEST);
    let arguments = Device::new(0, 0).arguments(new_run());
    let Outcome::Error(status) = runtime.call(promise_and_panic, &runtime.call_site(), arguments) else {
        panic!("no error")
    };
    assert!(status.code == 13 && status.message.ends_with("after the promise"), "{status:?}");
}

/// Counts how many live.
struct Counted(Rotate);
static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::SeqCst);
        panic!("a destructor that panics must not take the process along");
    }
}

impl Routine for Counted {
    fn needs_solver(&self) -> bool {
        self.0.needs_solver()
    }
    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }
    fn grid(&self) -> ProcessGrid {
        self.0.grid()
    }
    fn run_rank(&self, backend: &Backend<'_>, operands: meshsolve::Result<Operands>) -> Result<(), Failure> {
        self.0.run_rank(backend, operands)
    }
    fn ranks(&self) -> usize {
        self.0.ranks()
    }
    fn inputs(&self) -> &[OperandSpec] {
        self.0.inputs()
    }
    fn outputs(&self) -> &[OperandSpec] {
        self.0.outputs()
    }
    fn roles(&self) -> &[u64] {
        self.0.roles()
    }
    fn run(&self, ranks: Vec<RankOperands>) -> Result<(), Failure> {
        self.0.run(ranks)
    }
}

unsafe extern "C" fn instantiate_counted(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the runtime's promise.
    unsafe {
        enter(frame, |call| {
            instantiate_with(call, |_| {
                LIVE.fetch_add(1, Ordering::SeqCst);
                Ok(Arc::new(Counted(Rotate::new(1, Manner::Good))))
            })
        })
    }
}

#[test]
fn state_dies_with_the_program_or_when_it_is_refused() {
    for version in VERSIONS.into_iter().chain([OLD]) {
        let runtime = Runtime::new(version);
        let site = runtime.call_site();
        let call = || CallArguments {
            stage: sys::stage::INSTANTIATE,
            run_id: 0,
            device: 0,
            attributes: vec![("request", Value::Text("counted"))],
            operands: vec![],
            results: vec![],
        };
        runtime.call(instantiate_counted, &site, call()).wait().unwrap();
        assert_eq!(LIVE.load(Ordering::SeqCst), 1, "{}", version.name);
        // XLA refuses a second state; the refused one is ours to destroy, which panics here.
        assert!(runtime.call(instantiate_counted, &site, call()).wait().is_err());
        assert_eq!(LIVE.load(Ordering::SeqCst), 1, "{}", version.name);
        drop(site);
        assert_eq!(LIVE.load(Ordering::SeqCst), 0, "{}", version.name);
    }
}

static LENT: Mutex<Vec<Result<Option<usize>, Failure>>> = Mutex::new(Vec::new());

/// What a GPU's execute stage does first.
unsafe extern "C" fn borrow_communicator(frame: *mut sys::CallFrame) -> *mut sys::Error {
    // SAFETY: the runtime's promise.
    unsafe {
        enter(frame, |call| {
            let lent = Collectives::find(call).and_then(|found| {
                let devices: Vec<i64> = (0..6).collect();
                found.map(|c| c.get(&devices, SHARED_COMMUNICATOR)).transpose()
            });
            LENT.lock().unwrap().push(lent.map(|lent| lent.map(|pointer| pointer.as_ptr() as usize)));
            Ok(())
        })
    }
}

#[test]
fn prepare_requests_the_communicator_that_execute_gets() {
    for version in VERSIONS {
        let runtime = Runtime::new(version);
        let site = |places: &'static [i64]| {
            let attributes = vec![
                ("device_ids", Value::Integers(&[0, 1, 2, 3, 4, 9])),
                ("places", Value::Integers(places)),
                ("request", Value::Text("rotate 3")),
            ];
            instantiated_with(&runtime, attributes)
        };
        // Two devices at one place, and fewer places than devices.
        for places in [&[0, 1, 2, 3, 4, 4][..], &[0, 1, 2]] {
            let refusal = site(places).err().expect("this must fail").message;
            assert!(refusal.contains("one place of groups of 3"), "{refusal}");
        }
        let site = site(&[0, 3, 1, 4, 2, 5]).unwrap();
        let call = |stage| CallArguments {
            stage,
            run_id: 1,
            device: 0,
            attributes: vec![],
            operands: vec![],
            results: vec![],
        };
        let execute = |site: &CallSite| {
            runtime.call(borrow_communicator, site, call(sys::stage::EXECUTE)).wait().unwrap();
            LENT.lock().unwrap().pop().unwrap()
        };
        if version.collectives {
            // Not requested yet.
            assert!(execute(&site).unwrap_err().message.contains("after cliques are acquired"));
            // In a wrong stage XLA's own words come through.
            let wrong = runtime.call(exported("prepare"), &site, call(sys::stage::INITIALIZE));
            assert!(message(&wrong).contains("only available during the prepare stage"));
        }
        runtime.call(exported("prepare"), &site, call(sys::stage::PREPARE)).wait().unwrap();
        let expected = version.collectives.then_some(fake_xla::COMMUNICATOR);
        assert_eq!(execute(&site), Ok(expected), "{}", version.name);
    }
    assert!(!fake_xla::OUTSIDE_TABLE.load(Ordering::Relaxed));
}
