//! One rank cannot take part in a call: all ranks end with its error, and nothing was written.

use meshsolve::communicator::Communicator;
use meshsolve::device::{Buffer, CpuDevice, Device, Operation};
use meshsolve::plan::Plan;
use meshsolve::routines::{Backend, Operands, run};
use meshsolve::solver::FaerSolver;
use meshsolve::{Error, ErrorKind, Result, simulate};
use meshsolve_tests::{Memory, UNTOUCHED};
use std::sync::{Arc, Mutex};

/// A CPU without room for scratch.
#[derive(Default)]
struct FullDevice(CpuDevice);

impl Device for FullDevice {
    unsafe fn launch(&self, operation: &Operation) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.launch(operation) }
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        Err(Error::resource_exhausted(format!("no room for {bytes} bytes")))
    }

    fn release(&self, buffer: Buffer) {
        self.0.release(buffer);
    }

    fn table(&self, words: &Arc<[u32]>) -> Result<Buffer> {
        self.0.table(words)
    }
}

/// Runs a Cholesky solve on four ranks of which rank 2 has a device and operands of its own choice.
fn outcomes(
    odd_device: &(dyn Device + Sync),
    odd_operands: impl Fn(Operands) -> Result<Operands> + Sync,
) -> Vec<Result<()>> {
    let plan = Plan::from_json(
        r#"{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":24,"nrhs":2,"grid":[2,2],"tile":5,
            "b":{"rows":"sharded","cols":"replicated"},"triangle":null,"log_det":true}"#,
    )
    .unwrap();
    let memories: Vec<[Vec<Memory>; 2]> = (0..4)
        .map(|_| {
            [plan.inputs(), plan.outputs()]
                .map(|specs| specs.iter().map(|spec| Memory::new(spec.bytes())).collect())
        })
        .collect();
    let operands: Vec<Operands> = memories
        .iter()
        .map(|[inputs, outputs]| Operands {
            inputs: inputs.iter().map(Memory::buffer).collect(),
            outputs: outputs.iter().map(Memory::buffer).collect(),
        })
        .collect();
    let results = Mutex::new(vec![Ok(()); 4]);
    let first = simulate::on_ranks(4, |rank, communicator| {
        let usual = CpuDevice::new();
        let device: &dyn Device = if rank == 2 { odd_device } else { &usual };
        let solver = FaerSolver::new(communicator);
        let backend = Backend { device, communicator, solver: Some(&solver) };
        let own = operands[rank].clone();
        let own = if rank == 2 { odd_operands(own) } else { Ok(own) };
        assert_eq!(communicator.size(), 4);
        let result = run(&plan, &backend, own);
        results.lock().unwrap()[rank] = result.clone();
        result
    });
    assert!(first.is_err());
    for memory in memories.iter().flat_map(|[_, outputs]| outputs) {
        assert!(memory.bytes().iter().all(|&byte| byte == UNTOUCHED), "something was written");
    }
    results.into_inner().unwrap()
}

fn assert_all_say(outcomes: &[Result<()>], kind: ErrorKind, parts: &[&str]) {
    for outcome in outcomes {
        let error = outcome.as_ref().expect_err("every rank must fail");
        assert_eq!(error.kind(), kind);
        for part in parts {
            assert!(error.to_string().contains(part), "{part:?} is not in {error}");
        }
        assert_eq!(outcome, &outcomes[0], "ranks differ");
    }
}

#[test]
fn no_memory_on_one_rank() {
    let outcomes = outcomes(&FullDevice::default(), Ok);
    assert_all_say(&outcomes, ErrorKind::ResourceExhausted, &["rank 2", "no room for"]);
}

#[test]
fn a_buffer_of_the_wrong_size_on_one_rank() {
    let outcomes = outcomes(&CpuDevice::new(), |operands| {
        let shorter = operands.inputs[0].slice(0, operands.inputs[0].bytes() - 8);
        Ok(Operands { inputs: vec![shorter, operands.inputs[1]], ..operands })
    });
    assert_all_say(&outcomes, ErrorKind::Internal, &["rank 2", "input a", "the plan needs"]);
}

#[test]
fn operands_that_one_rank_refused() {
    let refusal = Error::invalid_argument("operand 1 is f32[12,12] where the plan wants f64[12,12]");
    let outcomes = outcomes(&CpuDevice::new(), |_| Err(refusal.clone()));
    assert_all_say(&outcomes, ErrorKind::InvalidArgument, &["rank 2", "f32[12,12]"]);
}
