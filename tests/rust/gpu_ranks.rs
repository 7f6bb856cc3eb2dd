//! NCCL and cuSOLVERMp on the first two GPUs of this machine, one thread for each, on communicators of
//! our own.

use cust::context::CurrentContext;
use cust::memory::DeviceBuffer;
use cust::stream::Stream;
use meshsolve::communicator::nccl::{self, NcclCommunicator};
use meshsolve::communicator::{Ballot, Communicator, Message, Reduction};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::{CudaDevice, StreamMemory};
use meshsolve::plan::{OperandSpec, Plan};
use meshsolve::routines::{Backend, Operands, run};
use meshsolve::solver::cusolvermp::{self, CusolverMpSolver};
use meshsolve::{Error, ErrorKind};
use meshsolve_tests::gpus::{download, on_two_gpus, window};

/// One test: NCCL calls of several tests must not interleave on the same devices.
#[test]
#[ignore = "needs two GPUs and NVIDIA's libraries: run it there with --include-ignored"]
fn two_gpus() {
    let outcomes = on_two_gpus(votes);
    let [first, second] = &outcomes[..] else { panic!("two ranks") };
    assert_eq!(first, second, "every rank gets the same outcome");
    let texts: Vec<_> = first.iter().map(|o| o.as_ref().map_err(|e| (e.kind(), e.to_string()))).collect();
    assert_eq!(texts[0], Ok(&()));
    let (kind, text) = texts[1].clone().unwrap_err();
    assert!(
        kind == ErrorKind::ResourceExhausted && text.contains("rank 1") && text.contains("no 17 bytes"),
        "{text}"
    );
    assert!(texts[2].clone().unwrap_err().1.contains("rank 1 runs a different call"));
    assert_eq!(texts[3], Ok(&()));
    let (_, long) = texts[4].clone().unwrap_err();
    assert!(long.len() > 900 && long.len() < 1100, "{}", long.len());

    on_two_gpus(messages);
    on_two_gpus(solves);
    faults();
    let before = (nccl::counters(), cusolvermp::counters());
    on_two_gpus(solves);
    assert_eq!((nccl::counters(), cusolvermp::counters()), before, "nothing is made a second time");
    eprintln!("{before:?}\n{:?}", meshsolve::libraries::loaded());
}

/// One rank's memory is full, or its operands could not be had: both end with its error, promptly, and
/// nothing was written. The solves after this show that the communicators are as good as before.
fn faults() {
    for (fault, kind, part) in [
        (Fault::FullMemory, ErrorKind::ResourceExhausted, "this GPU is full"),
        (Fault::WrongOperand, ErrorKind::Internal, "input b has 8 bytes"),
        (Fault::NoOperands, ErrorKind::InvalidArgument, "b is not where it should be"),
    ] {
        let start = std::time::Instant::now();
        let errors = on_two_gpus(|ranks, device, stream| faulty_solve(ranks, device, stream, fault));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], texts[1], "every rank gets the same error");
        assert!(
            errors[0].kind() == kind && texts[0].contains("rank 1") && texts[0].contains(part),
            "{texts:?}"
        );
        eprintln!("{fault:?}, seen on both ranks after {:?}: {}", start.elapsed(), texts[0]);
    }
}

/// What goes wrong on rank 1.
#[derive(Clone, Copy, Debug)]
enum Fault {
    FullMemory,
    WrongOperand,
    NoOperands,
}

struct FullMemory;

impl StreamMemory for FullMemory {
    fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        Err(Error::resource_exhausted(format!("this GPU is full: no {bytes} bytes")))
    }

    fn release(&self, _: u64, _: u64) {
        unreachable!("nothing was allocated")
    }
}

fn faulty_solve(ranks: &NcclCommunicator, device: &CudaDevice<'_>, stream: &Stream, fault: Fault) -> Error {
    const UNTOUCHED: u8 = 0x5a;
    let plan = Plan::from_json(
        r#"{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":300,"nrhs":2,"grid":[1,2],"tile":64,
            "b":{"rows":"replicated","cols":"replicated"},"triangle":null,"log_det":true}"#,
    )
    .unwrap();
    let memories: Vec<DeviceBuffer<u8>> = (plan.inputs().iter().chain(plan.outputs()))
        .map(|spec| DeviceBuffer::from_slice(&vec![UNTOUCHED; spec.bytes() as usize]).unwrap())
        .collect();
    CurrentContext::synchronize().unwrap();
    let (inputs, outputs) = memories.split_at(plan.inputs().len());
    let windows = |memories: &[DeviceBuffer<u8>]| memories.iter().map(window).collect::<Vec<_>>();
    let mut operands = Ok(Operands { inputs: windows(inputs), outputs: windows(outputs) });
    // SAFETY: the stream outlives the device.
    let full = unsafe { CudaDevice::new(stream.as_inner(), &FullMemory) }.unwrap();
    let mut device = device;
    if ranks.rank() == 1 {
        match fault {
            Fault::FullMemory => device = &full,
            Fault::WrongOperand => {
                let inputs = &mut operands.as_mut().unwrap().inputs;
                inputs[1] = inputs[1].slice(0, 8);
            }
            Fault::NoOperands => operands = Err(Error::invalid_argument("b is not where it should be")),
        }
    }
    let solver = CusolverMpSolver::new(ranks, device, plan.grid()).unwrap();
    let error =
        run(&plan, &Backend { device, communicator: ranks, solver: Some(&solver) }, operands).unwrap_err();
    for memory in &memories {
        assert!(download(stream, memory).iter().all(|&byte| byte == UNTOUCHED), "something was written");
    }
    error
}

fn votes(ranks: &NcclCommunicator, _: &CudaDevice<'_>, _: &Stream) -> Vec<Result<(), Error>> {
    let me = ranks.rank();
    let refusal = |text: String| if me == 1 { Err(Error::resource_exhausted(text)) } else { Ok(()) };
    let start = std::time::Instant::now();
    let mut outcomes = vec![ranks.agree(Ballot { fingerprint: u64::MAX / 3, verdict: Ok(()) })];
    let first = start.elapsed();
    let start = std::time::Instant::now();
    for _ in 0..100 {
        ranks.agree(Ballot { fingerprint: 7, verdict: Ok(()) }).unwrap();
    }
    eprintln!("rank {me}: first vote {first:?}, then {:?} each", start.elapsed() / 100);
    outcomes.push(ranks.agree(Ballot { fingerprint: 1, verdict: refusal("no 17 bytes".into()) }));
    outcomes.push(ranks.agree(Ballot { fingerprint: me, verdict: Ok(()) }));
    outcomes.push(ranks.agree(Ballot { fingerprint: 0, verdict: Ok(()) }));
    outcomes.push(ranks.agree(Ballot { fingerprint: 1, verdict: refusal("x".repeat(5000)) }));
    outcomes
}

fn messages(ranks: &NcclCommunicator, _: &CudaDevice<'_>, stream: &Stream) {
    let (me, peer) = (ranks.rank(), 1 - ranks.rank());
    // Three messages, one of them empty and one to itself; every byte encodes sender and position.
    let sent: Vec<u8> = (0..3000).map(|i| (me * 128 + i % 101) as u8).collect();
    let (from, to) =
        (DeviceBuffer::from_slice(&sent).unwrap(), DeviceBuffer::from_slice(&[255u8; 3000]).unwrap());
    let (from_window, to_window) = (window(&from), window(&to));
    let cut = |window: Buffer, at: u64, bytes: u64, peer| Message { peer, data: window.slice(at, bytes) };
    let sends = [
        cut(from_window, 0, 1001, peer),
        cut(from_window, 7, 0, peer),
        cut(from_window, 1001, 500, me),
        cut(from_window, 1501, 1499, peer),
    ];
    let receives = [
        cut(to_window, 1999, 1001, peer),
        cut(to_window, 0, 500, me),
        cut(to_window, 9, 0, peer),
        cut(to_window, 500, 1499, peer),
    ];
    ranks.exchange(&sends, &receives).unwrap();
    let byte = |sender: u64, i: u64| (sender * 128 + i % 101) as u8;
    let expected: Vec<u8> = (0..500)
        .map(|i| byte(me, 1001 + i))
        .chain((0..1499).map(|i| byte(peer, 1501 + i)))
        .chain((0..1001).map(|i| byte(peer, i)))
        .collect();
    assert_eq!(download(stream, &to), expected);

    let words = DeviceBuffer::from_slice(&[me as i32, -(me as i32), 5]).unwrap();
    ranks.all_reduce(Reduction::MaxI32, window(&words)).unwrap();
    assert_eq!(download(stream, &words), [1, 0, 5]);
    let words = DeviceBuffer::from_slice(&[me as i32, -(me as i32), 5]).unwrap();
    ranks.all_reduce(Reduction::MinI32, window(&words)).unwrap();
    assert_eq!(download(stream, &words), [0, -1, 5]);
    let sum = DeviceBuffer::from_slice(&[0.5 + me as f64]).unwrap();
    ranks.all_reduce(Reduction::SumF64, window(&sum)).unwrap();
    assert_eq!(download(stream, &sum), [2.0]);
    // Ranks in the other order.
    let turned = ranks.split(0, 1 - me).unwrap();
    assert_eq!((turned.rank(), turned.size()), (peer, 2));
    turned.agree(Ballot { fingerprint: 3, verdict: Ok(()) }).unwrap();
}

/// Known x, A = exp(−|i−j|/10) + I: b by plain loops.
fn solves(ranks: &NcclCommunicator, device: &CudaDevice<'_>, stream: &Stream) {
    for (grid, n, nrhs, tile, definite) in [
        ([1, 2], 1000, 3, "128", true),
        ([2, 1], 1000, 1, "null", true),
        ([1, 2], 40, 0, "8", true),
        ([2, 1], 300, 2, "64", true),
        ([1, 2], 300, 2, "64", true),
        ([1, 2], 300, 2, "150", false),
        ([1, 2], 300, 2, "64", false),
        ([2, 1], 300, 2, "64", false),
        ([1, 2], 4096, 5, "512", true),
    ] {
        solve(ranks, device, stream, grid, n, nrhs, tile, definite);
    }
}

#[expect(clippy::too_many_arguments, reason = "one case")]
fn solve(
    ranks: &NcclCommunicator,
    device: &CudaDevice<'_>,
    stream: &Stream,
    grid: [u64; 2],
    n: u64,
    nrhs: u64,
    tile: &str,
    definite: bool,
) {
    let request = format!(
        r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":{n},"nrhs":{nrhs},"grid":[{},{}],"tile":{tile},"b":{{"rows":"replicated","cols":"replicated"}},"triangle":null,"log_det":true}}"#,
        grid[0], grid[1]
    );
    let plan = Plan::from_json(&request).unwrap();
    let broken = n / 2;
    let element = |i: u64, j: u64| match i == j {
        _ if i.max(j) >= n => 0.0,
        true if !definite && i == broken => -1.0,
        true => 2.0,
        false => (-(i.abs_diff(j) as f64) / 10.0).exp(),
    };
    let x = |i: u64, k: u64| (i as f64 * 0.7 + k as f64).sin();
    let [shard_rows, shard_cols] = plan.inputs()[0].shape[..] else { panic!("a matrix") };
    // On grids of one row or column every device plays the rank of its place.
    let (row, col) = (ranks.rank() / grid[1], ranks.rank() % grid[1]);
    let a: Vec<f64> = (0..shard_rows * shard_cols)
        .map(|at| element(row * shard_rows + at / shard_cols, col * shard_cols + at % shard_cols))
        .collect();
    let b: Vec<f64> =
        (0..n * nrhs).map(|at| (0..n).map(|j| element(at / nrhs, j) * x(j, at % nrhs)).sum()).collect();
    let memory =
        |values: &[f64]| DeviceBuffer::from_slice(if values.is_empty() { &[0.0] } else { values }).unwrap();
    let inputs = [memory(&a), memory(&b)];
    // An upload from ordinary memory may end after the call that began it.
    CurrentContext::synchronize().unwrap();
    let outputs: Vec<Option<DeviceBuffer<u8>>> = plan
        .outputs()
        .iter()
        .map(|spec| {
            spec.alias
                .is_none()
                .then(|| DeviceBuffer::from_slice(&vec![255; spec.bytes().max(1) as usize]).unwrap())
        })
        .collect();
    let of = |window: Buffer, spec: &OperandSpec| window.slice(0, spec.bytes());
    let input_windows: Vec<Buffer> =
        inputs.iter().zip(plan.inputs()).map(|(memory, spec)| of(window(memory), spec)).collect();
    let output_windows = outputs.iter().zip(plan.outputs()).map(|(memory, spec)| match memory {
        Some(memory) => of(window(memory), spec),
        None => input_windows[spec.alias.unwrap()],
    });
    let operands = Operands { inputs: input_windows.clone(), outputs: output_windows.collect() };
    let solver = CusolverMpSolver::new(ranks, device, plan.grid()).unwrap();
    let backend = Backend { device, communicator: ranks, solver: Some(&solver) };
    let start = std::time::Instant::now();
    run(&plan, &backend, Ok(operands)).unwrap();
    stream.synchronize().unwrap();
    let took = start.elapsed();
    let place = |name: &str| plan.outputs().iter().position(|spec| spec.name == name).unwrap();
    let bytes = |name: &str| download(stream, outputs[place(name)].as_ref().unwrap());
    let status = i32::from_ne_bytes(bytes("status")[..4].try_into().unwrap());
    let doubles = |name: &str| {
        bytes(name).chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
    };
    let (solution, log_det) = (doubles("x"), doubles("log_det")[0]);
    eprintln!(
        "rank {} grid {grid:?} n {n} nrhs {nrhs}: status {status} log det {log_det} in {took:?}",
        ranks.rank()
    );
    if !definite {
        assert_eq!(status, broken as i32 + 1);
        assert!(log_det.is_nan() && solution.iter().all(|x| x.is_nan()) && solution.len() as u64 == n * nrhs);
        return;
    }
    assert_eq!(status, 0);
    let worst = solution
        .iter()
        .enumerate()
        .map(|(at, got)| (got - x(at as u64 / nrhs, at as u64 % nrhs)).abs())
        .fold(0.0, f64::max);
    assert!(worst < 1e-12 * n as f64 && solution.iter().all(|x| x.is_finite()), "worst {worst}");
    assert!(log_det.is_finite() && log_det > 0.0 && log_det < n as f64);
}
