//! Eigenvalues and eigenvectors: cuSOLVERMp alone, and the whole routine. The matrix has arbitrary numbers that
//! depend on |i − j|, whose eigenvalues do not cluster: clusters would spare the library work. The metric is
//! exp(−10·|i−j|/n) + I.

use super::bench::{self, ALONE, Bench, Contestant, Whole, arbitrary, definite, distributed, part};
use super::gpus::{memory, window};
use super::{Arguments, Failure, Routine};
use cust::memory::DeviceBuffer;
use meshsolve::device::{Buffer, Scratch};
use meshsolve::plan::{EigenPlan, Plan};
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::solver::{DistributedMatrix, Eigenproblem, Solver};

/// Measures every size with every tile and prints a line for each.
pub fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let has_metric = arguments.routine == Routine::Sygvd;
    let task = if arguments.values { "values" } else { "vectors" };
    let request = format!(r#""routine":"eigen","task":"{task}","metric":{has_metric}"#);
    bench::measure_each(arguments, |bench, n, tile| {
        // Alone, the library is called on A itself, not on a permuted one.
        let stages = bench.plan(&request, n, tile, "stages")?;
        measure_one(bench, n, tile, &stages, &bench.plan(&request, n, tile, &arguments.layout)?)
    })
}

/// The matrices of the library's calls, and memory that all of them share.
struct Alone<'a> {
    bench: &'a Bench<'a>,
    solver: CusolverMpSolver<'a>,
    plan: &'a EigenPlan,
    /// What the caller passes in: A and the metric.
    inputs: Vec<Buffer>,
    matrix: DistributedMatrix,
    metric: Option<DistributedMatrix>,
    vectors: Option<DistributedMatrix>,
    values: Buffer,
    workspace: Scratch<'a>,
    moving: Scratch<'a>,
    info: DeviceBuffer<u8>,
}

impl Alone<'_> {
    /// Seconds of `work` on matrices that are as the caller passed them in.
    fn time(&self, work: impl FnOnce(&Self) -> Result<(), Failure>) -> Result<f64, Failure> {
        for (&input, matrix) in self.inputs.iter().zip([Some(self.matrix), self.metric].into_iter().flatten())
        {
            self.bench.bring(self.plan.a(), input, matrix.data, self.moving.buffer())?;
        }
        let seconds = self.bench.time(|| work(self))?;
        self.bench.expect_zeros("info of cuSOLVERMp alone", &self.info)?;
        Ok(seconds)
    }

    fn problem(&self) -> Eigenproblem<'_> {
        Eigenproblem { a: &self.matrix, metric: self.metric.as_ref(), vectors: self.vectors.as_ref() }
    }

    fn eigen(&self) -> Result<(), Failure> {
        let (info, scratch) = (window(&self.info).slice(0, 4), self.workspace.buffer());
        Ok(self.solver.eigen(self.problem(), self.values, scratch, info)?)
    }
}

/// Times cuSOLVERMp alone on the matrices that `stages` makes and, if asked for, the whole routine by `plan`, in
/// turn. Gives the medians.
fn measure_one(
    bench: &Bench<'_>,
    n: u64,
    tile: u64,
    stages: &Plan,
    plan: &Plan,
) -> Result<Vec<(&'static str, f64)>, Failure> {
    let (eigen, device) = (plan_of(stages), bench.device);
    let solver = CusolverMpSolver::new(&bench.communicator, device, stages.grid())?;
    let has_metric = eigen.request().metric;
    let wants_vectors = !bench.arguments().values;

    let mut shards = vec![bench.shard(eigen.a(), |d| arbitrary(d.unsigned_abs()))?];
    if has_metric {
        shards.push(bench.shard(eigen.a(), definite(n))?);
    }
    let inputs: Vec<Buffer> =
        shards.iter().zip(stages.inputs()).map(|(shard, spec)| part(shard, spec)).collect();
    let in_solver = || memory(eigen.a().solver_bytes());
    let (a, values) = (in_solver()?, memory(n * eigen.a().dtype().real().size())?);
    let metric = has_metric.then(in_solver).transpose()?;
    let v = wants_vectors.then(in_solver).transpose()?;
    let as_matrix = |memory: &DeviceBuffer<u8>| distributed(eigen.a(), window(memory));
    let (matrix, metric, vectors) =
        (as_matrix(&a), metric.as_ref().map(as_matrix), v.as_ref().map(as_matrix));

    let problem = Eigenproblem { a: &matrix, metric: metric.as_ref(), vectors: vectors.as_ref() };
    let workspace = Scratch::new(device, solver.eigen_scratch(problem)?)?;
    let moving = Scratch::new(device, eigen.moving_bytes())?;
    let (values, info) = (window(&values), memory(16)?);
    let alone = Alone {
        bench,
        solver,
        plan: eigen,
        inputs,
        matrix,
        metric,
        vectors,
        values,
        workspace,
        moving,
        info,
    };
    let alone = &alone;

    let contestant = |name, note: &str, compute| Contestant { name, note: note.to_owned(), compute };
    let mut contestants = vec![contestant(ALONE, "", Box::new(|| alone.time(Alone::eigen)))];
    if bench.arguments().through_plan {
        let whole = Whole::new(bench, plan)?;
        let name = match (has_metric, wants_vectors) {
            (false, true) => "eigh",
            (false, false) => "eigvalsh",
            (true, true) => "eigh_metric",
            (true, false) => "eigvalsh_metric",
        };
        let way = plan_of(plan).candidate().to_string();
        contestants.push(contestant(name, &way, Box::new(move || whole.time(&alone.inputs))));
    }
    bench.compare(n, tile, &contestants)
}

/// An eigenproblem's plan.
fn plan_of(plan: &Plan) -> &EigenPlan {
    let Plan::Eigen(eigen) = plan else { unreachable!("an eigenproblem was asked for") };
    eigen
}
