//! Whole trials of the reference host, all faults, history and invariants on.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, WorkloadClass};
use hostproof_sim::trial::{Origin, Runner};

fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let n: u64 = args.get(1).map_or(20_000, |n| n.parse().expect("a number"));
    for workload in [WorkloadClass::Short, WorkloadClass::Standard] {
        let config = Config { workload, ..Config::default() };
        let mut runner = Runner::new().expect("outside of tokio");
        if args.first().is_some_and(|a| a == "hashes") {
            for index in 0..n {
                let outcome = runner.run(&config, Origin::Seed(seed(0, index).into()), None);
                println!("{workload:?} {index} {:016x}", outcome.hash);
            }
            continue;
        }
        let mut best = f64::MAX;
        for _ in 0..3 {
            let began = cpu();
            for index in 0..n {
                std::hint::black_box(runner.run(&config, Origin::Seed(seed(0, index).into()), None));
            }
            best = best.min((cpu() - began) / n as f64);
        }
        println!("{workload:?}: {:.1} us, {:.0} trials/s", best * 1e6, 1.0 / best);
    }
}
