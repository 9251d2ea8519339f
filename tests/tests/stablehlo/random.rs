//! Random programs.

use gradloom::Tensor;
use gradloom_stablehlo::ExportError;
use gradloom_tests::exported::report;
use gradloom_tests::graphs::{Kind, Node, Rng, graph};
use gradloom_tests::xla::{self, Job};

/// Default number of programs.
const PROGRAMS: usize = 500;

#[test]
fn random_programs_give_the_results_of_the_definitions() {
    let Some(python) = xla::python("comparisons of random programs with XLA") else {
        return;
    };
    let n = std::env::var("GRADLOOM_PROGRAMS")
        .ok()
        .and_then(|n| n.parse().ok());
    let n: usize = n.unwrap_or(PROGRAMS);
    let mut jobs = Vec::new();
    let mut expected = Vec::new();
    let mut seed = 0u64;
    while jobs.len() < n {
        let mut rng = Rng::new(9 << 40 | seed);
        let kind = if seed.is_multiple_of(2) {
            Kind::Exact
        } else {
            Kind::Smooth
        };
        let n_steps = 1 + rng.below(if seed % 8 < 2 { 40 } else { 12 });
        seed += 1;
        let graph = graph(&mut rng, kind, n_steps);
        let leaves = graph.nodes.iter().filter_map(|node| match node {
            Node::Leaf(x) => Some(x.clone()),
            Node::Step(_) => None,
        });
        let leaves: Vec<Tensor> = leaves.collect();
        // Programs whose results depend on rounding are not compared.
        let results = graph.interpreted(&leaves);
        if !results.is_stable() {
            continue;
        }
        let (program, _) = graph.program();
        let text = gradloom_stablehlo::export(&program, "random");
        if let Err(ExportError::NoForm { .. }) = text {
            continue;
        }
        jobs.push(Job {
            name: format!("seed {}", seed - 1),
            text: text.unwrap_or_else(|e| panic!("{program}: {e}")),
            args: leaves,
            devices: 1,
        });
        expected.push((results, program));
    }
    let found = xla::run(&python, &jobs);
    let mut failed = Vec::new();
    for ((found, (expected, program)), job) in found.into_iter().zip(&expected).zip(&jobs) {
        let result = found.and_then(|found| {
            let mut all = found.iter().enumerate();
            all.try_for_each(|(i, x)| expected.near(i, x))
        });
        if let Err(e) = result {
            failed.push(format!("{}: {program}\n{e}", job.name));
        }
    }
    report(n, &failed);
}
