//! Known answers: how many schedules each strategy needs for five small races of different shape. A strategy that stops doing what its name says shows here.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;

use hostproof::env::TaskLabel;
use hostproof_spec::names::{Names, Sym};

use super::portfolio::{Pick, Portfolio};
use super::{Schedulers, Strategy, Turn};
use crate::choice::{Chooser, Source, fold, mix64};
use crate::coverage::{Coverage, Covered};
use crate::exec::{Executor, Group, Yield};
use crate::trial::Outcome;

/// Searches a cell.
const SEARCHES: u64 = 24;
/// Most schedules of a search.
const CAP: u64 = 1200;

/// Where toys live.
#[derive(Default)]
struct Bench {
    exec: Executor,
    chooser: Chooser,
    schedulers: Schedulers,
    names: Names,
    coverage: Coverage,
}

/// Spawns the tasks of a race; the flag says in the end whether it was lost.
type Toy = fn(&Bench) -> Rc<Cell<bool>>;

impl Bench {
    fn task(&self, role: &'static str, resource: &str, task: impl Future<Output = ()> + 'static) {
        let session: Sym = self.names.intern(resource);
        self.exec.spawn(Group(0), TaskLabel { role, session: Some(session) }, Box::pin(task));
    }

    /// Runs one schedule of a toy.
    fn run(&mut self, toy: Toy, pick: &Pick) -> (bool, Outcome) {
        self.exec.clear();
        self.chooser.reset(pick.lineage.seed, Source::Seed, false);
        self.schedulers.begin(pick.strategy, 60, &self.chooser);
        self.coverage.begin();
        let lost = toy(self);
        let mut branches: Vec<_> = pick.lineage.branches().collect();
        let mut tick = 0;
        while self.exec.ready_count() > 0 {
            if branches.first().is_some_and(|branch| branch.tick <= tick) {
                self.chooser.branch(branches.remove(0).seed);
                self.schedulers.begin(pick.strategy, 60_u32.saturating_sub(tick).max(16), &self.chooser);
            }
            let next = {
                let ready = self.exec.ready();
                let (chooser, exec, names) = (&self.chooser, &self.exec, &self.names);
                let turn = Turn { tick, ready: &ready, chooser, exec, names, touched: &[] };
                let next = self.schedulers.of(pick.strategy).next(&turn);
                let task = ready.tasks()[next.0];
                self.coverage.event("step", task.label.session.expect("toys have one"), task.node, task.label.role);
                next
            };
            self.exec.poll(next);
            tick += 1;
        }
        (lost.get(), Outcome { busy: tick, pairs: self.coverage.keys().to_vec(), ..Outcome::default() })
    }

    /// Schedules until the race was lost, or the cap.
    fn search(&mut self, toy: Toy, strategy: Strategy, base: u64) -> u64 {
        let (mut portfolio, mut covered) = (Portfolio::new(), Covered::default());
        for number in 0..CAP {
            let seed = mix64(fold(base, number));
            let pick = match strategy {
                Strategy::Portfolio => portfolio.choose(seed),
                strategy => Pick { strategy, lineage: seed.into(), mutated: false },
            };
            let (lost, outcome) = self.run(toy, &pick);
            if lost {
                return number + 1;
            }
            let new = covered.add(&outcome.pairs);
            portfolio.learn(&pick, &outcome, new);
        }
        CAP
    }

    fn mean(&mut self, toy: Toy, strategy: Strategy) -> u64 {
        (0..SEARCHES).map(|search| self.search(toy, strategy, 1000 + search)).sum::<u64>() / SEARCHES
    }
}

async fn steps(count: u32) {
    for _ in 0..count {
        Yield::once().await;
    }
}

/// Two tasks read, let others go, and write; six others make noise.
fn lost_update(bench: &Bench) -> Rc<Cell<bool>> {
    let (value, lost) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    for _ in 0..2 {
        let (value, lost) = (value.clone(), lost.clone());
        bench.task("adder", "counter", async move {
            steps(2).await;
            let read = value.get();
            steps(1).await;
            lost.set(lost.get() || value.get() != read);
            value.set(read + 1);
        });
    }
    for noise in 0..6 {
        bench.task("noise", &format!("noise {noise}"), steps(5));
    }
    lost
}

/// One task takes 30 steps; another waits for its first.
fn starvation(bench: &Bench) -> Rc<Cell<bool>> {
    let (began, lost) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (waiting, starved) = (began.clone(), lost.clone());
    bench.task("worker", "log", async move {
        steps(30).await;
        starved.set(!waiting.get());
    });
    bench.task("waiter", "log", async move {
        steps(1).await;
        began.set(true);
    });
    lost
}

/// A cancellation between the two steps of a publication, and a reader between cancellation and the second step.
fn publication(bench: &Bench) -> Rc<Cell<bool>> {
    let state: Rc<RefCell<(bool, bool, bool)>> = Rc::default();
    let lost = Rc::new(Cell::new(false));
    let publisher = state.clone();
    bench.task("publisher", "row", async move {
        steps(3).await;
        publisher.borrow_mut().0 = true;
        steps(1).await;
        publisher.borrow_mut().1 = true;
    });
    let canceller = state.clone();
    bench.task("canceller", "row", async move {
        steps(7).await;
        let mut state = canceller.borrow_mut();
        if state.0 && !state.1 {
            state.2 = true;
        }
    });
    let bad = lost.clone();
    bench.task("reader", "row", async move {
        steps(9).await;
        let (published, durable, cancelled) = *state.borrow();
        bad.set(published && !durable && cancelled);
    });
    for noise in 0..2 {
        bench.task("noise", &format!("noise {noise}"), steps(8));
    }
    lost
}

/// Two tasks that take turns strictly, eight rounds long.
fn alternation(bench: &Bench) -> Rc<Cell<bool>> {
    let (last, run, lost) = (Rc::new(Cell::new(2)), Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    for me in 0..2 {
        let (last, run, lost) = (last.clone(), run.clone(), lost.clone());
        bench.task("turner", "turn", async move {
            for _ in 0..9 {
                run.set(if last.get() == me { 0 } else { run.get() + 1 });
                last.set(me);
                lost.set(lost.get() || run.get() >= 16);
                Yield::once().await;
            }
        });
    }
    lost
}

/// A reader that a writer overtakes twice between two of its steps.
fn lapping(bench: &Bench) -> Rc<Cell<bool>> {
    let (version, lost) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let written = version.clone();
    bench.task("writer", "buffer", async move {
        for _ in 0..6 {
            steps(2).await;
            written.set(written.get() + 1);
        }
    });
    let bad = lost.clone();
    bench.task("reader", "buffer", async move {
        for _ in 0..6 {
            let before = version.get();
            steps(1).await;
            bad.set(bad.get() || version.get() >= before + 2);
        }
    });
    for noise in 0..3 {
        bench.task("noise", &format!("noise {noise}"), steps(6));
    }
    lost
}

const TOYS: [(&str, Toy); 5] = [
    ("lost update", lost_update),
    ("starvation", starvation),
    ("publication", publication),
    ("alternation", alternation),
    ("lapping", lapping),
];

#[test]
fn each_strategy_has_its_profile_and_the_portfolio_has_no_blind_spot() {
    let mut bench = Bench::default();
    let mut table = format!("{:<13}", "");
    TOYS.iter().for_each(|(name, _)| write!(table, "{name:>13}").unwrap());
    for strategy in Strategy::ALL {
        write!(table, "\n{:<13}", strategy.name()).unwrap();
        for (name, toy) in TOYS {
            let mean = bench.mean(toy, strategy);
            let text = if mean == CAP { "never".to_owned() } else { mean.to_string() };
            write!(table, "{text:>13}").unwrap();
            assert!(strategy != Strategy::Portfolio || mean <= 300, "the portfolio needs {mean} schedules for {name}");
        }
    }
    insta::assert_snapshot!(table, @r"
                   lost update   starvation  publication  alternation      lapping
    portfolio                3            7          155            6            5
    random                   3        never          126        never            2
    sticky                   8           31          103        never            4
    run-to-block         never            1        never        never        never
    fifo                     1        never        never            1        never
    pct2                    58            2          243        never           19
    pct3                    35            5          135        never           11
    pct5                    20           19           89        never            5
    pos                      3        never          107        never            3
    delay-fifo               1        never        never            1          162
    delay-run               18            4           49        never           18
    ");
}
