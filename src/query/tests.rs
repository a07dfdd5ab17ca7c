//! Stories of the query: what is read, how often, and what stands for what.

use hostproof_spec::history::List;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::FaultTarget;

use super::*;
use crate::host::Host;
use crate::operation::Driver;
use crate::testing::World;
use hostproof_spec::operation::Operation;
use hostproof_spec::wire::Call;

struct Stage {
    world: World,
    driver: Rc<Driver>,
}

fn start(parent: &str, child: &str) -> Operation {
    Operation::Start {
        parent: parent.to_owned(),
        provider: "spawn".to_owned(),
        label: child.to_owned(),
        child: Some(child.to_owned()),
        content: "work".to_owned(),
        max_depth: None,
        options: None,
    }
}

impl Stage {
    /// A root with children `a` and `b`, all of them stored and none live.
    fn new() -> Self {
        let world = World::new();
        let driver = Driver::new(Host::new(world.env(), Revision::R20260722.rules()));
        let stage = Self { world, driver };
        stage.ask(Operation::CreateSession { session: "root".to_owned() });
        let prompt =
            Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "hello".to_owned() };
        stage.ask(prompt);
        stage.ask(start("root", "a"));
        stage.ask(start("root", "b"));
        let world = stage.world.restarted();
        let driver = Driver::new(Host::new(world.env(), Revision::R20260722.rules()));
        Self { world, driver }
    }

    fn ask(&self, operation: Operation) {
        let bind = matches!(operation, Operation::CreateSession { .. }).then(|| "root".to_owned());
        let pending = self.driver.start(Call { op: "op".to_owned(), bind, aborted: false, operation });
        self.world.run();
        assert!(pending.is_over());
    }

    /// Asks the baseline over this host.
    fn query<T: 'static>(&self, ask: impl AsyncFnOnce(Baseline<'_>) -> T + 'static) -> T {
        let host = self.driver.host().clone();
        self.world.block_on(async move {
            let looks = Looks::default();
            let answer = ask(Baseline::new(host.env().names(), host.store(), Some(host.persistence()), &looks)).await;
            assert_eq!(looks.begun(), looks.ended(), "nothing is looked at any more");
            answer
        })
    }
}

#[test]
fn a_trace_finds_stored_children_in_order_and_refuses_who_is_not_there() {
    let stage = Stage::new();
    let (root, nobody) = (stage.world.sym("root"), stage.world.sym("nobody"));
    let found = stage.query(async move |query| query.trace(root, &Signal::new()).await);
    let found = found.expect("root is stored");
    let ids: Vec<Sym> = found.iter().map(|child| child.header.id).collect();
    assert_eq!(ids, [stage.world.sym("a"), stage.world.sym("b")]);
    assert!(found.iter().all(|child| !child.live && !child.has_children));
    let refused = stage.query(async move |query| query.trace(nobody, &Signal::new()).await);
    assert_eq!(refused.map(|_| ()), Err(QueryError::NotFound));
    let raised = Signal::new();
    raised.cancel();
    let refused = stage.query(async move |query| query.trace(root, &raised).await);
    assert_eq!(refused.map(|_| ()), Err(QueryError::Cancelled));
}

#[test]
fn a_failing_enumeration_fails_each_read_of_a_stored_session() {
    let stage = Stage::new();
    let a = stage.world.sym("a");
    stage.world.trip_next(FaultTarget::StoreList);
    let refused = stage.query(async move |query| query.events(a).await);
    assert_eq!(refused.map(|_| ()), Err(QueryError::Persistence));
    let read = stage.query(async move |query| query.event(a, 999, &Signal::new()).await);
    assert_eq!(read.map(|_| ()), Err(QueryError::NoEvent));
}

#[test]
fn a_circle_above_a_session_is_found_without_walking_for_ever() {
    let world = World::new();
    let header = |id: &str, parent: Option<&str>| Member {
        header: Rc::new(Header {
            version: 0,
            id: world.sym(id),
            created_at: 0,
            parent: parent.map(|parent| world.sym(parent)),
            subagent: true,
            inherited: 0,
            depth: 0,
        }),
        place: Place::Stored,
    };
    let members = vec![header("a", Some("b")), header("b", Some("a")), header("c", Some("gone")), header("d", Some("c"))];
    let corpus = Corpus { members, conflict: None };
    let round: Vec<bool> = ["a", "b", "c", "d", "gone"].map(|id| is_circle(&corpus, world.sym(id))).to_vec();
    assert_eq!(round, [true, true, false, false, false]);
}
