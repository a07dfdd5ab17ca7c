//! Sequential workloads that two hosts are given alike. Owns what is drawn from a seed; must never depend on what a host answers.

use std::collections::BTreeMap;

use hostproof_sim::choice::{fold, mix64};
use hostproof_spec::history::List;
use hostproof_spec::operation::{InterruptBy, Operation};
use hostproof_spec::script::{ModelScript, Reply};

/// One thing that is done; the hosts come to rest after each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call.
    Call {
        /// The handle that the agent object gets.
        bind: Option<String>,
        /// What is asked. The id of a child that the host chooses is written as [`fresh_id`] of the step.
        operation: Operation,
    },
    /// The host is stopped in order and mounted again on its store.
    Stop,
    /// The process is killed and another one started on its store.
    Kill,
}

/// What two hosts are asked, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What it was drawn from.
    pub seed: u64,
    /// What the model answers.
    pub script: ModelScript,
    /// What is done.
    pub steps: Vec<Step>,
}

/// What stands in a workload for the id that a host chooses for the child that the step of this number starts.
#[must_use]
pub fn fresh_id(step: usize) -> String {
    format!("f4e54000-0000-4000-8000-{step:012x}")
}

fn root_id(number: usize) -> String {
    format!("40070000-0000-4000-8000-{number:012x}")
}

fn child_id(number: usize) -> String {
    format!("c4110000-0000-4000-8000-{number:012x}")
}

/// What a model says when its script is used up. The reference adds to it which request that was.
pub(super) const DEFAULT_REPLY: &str = "ok";

/// Draws the workload of a seed.
#[must_use]
pub fn draw(seed: u64) -> Workload {
    let random = Random { key: mix64(seed ^ 0x5eed), drawn: 0 };
    let mut drawn = Drawn { random, roots: Vec::new(), children: Vec::new(), handles: Vec::new(), script: BTreeMap::new() };
    let length = 4 + drawn.random.below(14);
    let steps = (0..length).map(|number| drawn.step(number)).collect();
    let script = ModelScript { sessions: drawn.script, default: Some(Reply::Text { text: DEFAULT_REPLY.to_owned() }) };
    Workload { seed, script, steps }
}

/// A stream of numbers that one seed stands for.
struct Random {
    key: u64,
    drawn: u64,
}

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let bound = u64::try_from(bound.max(1)).expect("a small number");
        usize::try_from(fold(self.key, self.drawn) % bound).expect("it is below a small number")
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len());
        items.get(at)
    }

    /// An index, in proportion to the weights.
    fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return index,
            }
        }
        0
    }
}

/// A child as the workload knows it.
#[derive(Clone)]
struct Child {
    id: String,
    parent: String,
}

/// A name for an agent object, and whose it is.
#[derive(Clone)]
struct Handle {
    name: String,
    session: String,
    /// Whether it was bound in the process that runs now.
    alive: bool,
    /// Whether its agent object is probably still the one of its session.
    current: bool,
}

struct Drawn {
    random: Random,
    roots: Vec<String>,
    children: Vec<Child>,
    handles: Vec<Handle>,
    script: BTreeMap<String, Vec<Reply>>,
}

impl Drawn {
    fn step(&mut self, number: usize) -> Step {
        let rooted = self.handles.iter().any(|handle| handle.alive && handle.current && self.roots.contains(&handle.session));
        if self.handles.iter().all(|handle| !handle.alive) || (!rooted && !self.random.one_in(4)) {
            return self.open(number);
        }
        match self.random.weighted(&[2, 10, 10, 8, 5, 7, 2, 3, 1, 7, 2, 3, 1, 2, 1]) {
            0 => self.create(number),
            1 => self.start(number),
            2 => self.deliver(number),
            3 => self.prompt(),
            4 => self.report(),
            5 => self.interrupt(),
            6 => {
                let roots = vec![self.handle()];
                call(Operation::DrainDescendants { roots })
            }
            7 => self.drain_children(),
            8 => {
                let children = |handle: &&mut Handle| handle.session.starts_with("c4");
                self.handles.iter_mut().filter(children).for_each(|handle| handle.current = false);
                call(Operation::DrainAll)
            }
            9 => {
                let parent = self.session();
                call(Operation::ListChildren { parent })
            }
            10 => self.dispose(),
            11 => self.resume(number),
            12 => {
                let session = self.session();
                call(Operation::Flush { session })
            }
            13 => self.gone(Step::Stop),
            // A process costs as much as ten workloads.
            _ if self.random.one_in(8) => self.gone(Step::Kill),
            _ => self.deliver(number),
        }
    }

    /// A process without any agent object gets one.
    fn open(&mut self, number: usize) -> Step {
        if self.roots.is_empty() || self.random.one_in(6) { self.create(number) } else { self.resume(number) }
    }

    fn gone(&mut self, step: Step) -> Step {
        self.handles.iter_mut().for_each(|handle| (handle.alive, handle.current) = (false, false));
        step
    }

    fn bind(&mut self, number: usize, session: &str, current: bool) -> Option<String> {
        let name = format!("h{number}");
        self.handles.push(Handle { name: name.clone(), session: session.to_owned(), alive: true, current });
        Some(name)
    }

    fn is_live(&self, root: &str) -> bool {
        self.handles.iter().any(|handle| handle.alive && handle.current && handle.session == root)
    }

    fn create(&mut self, number: usize) -> Step {
        let taken = if self.random.one_in(8) { self.random.of(&self.roots).cloned() } else { None };
        if let Some(session) = taken {
            return call(Operation::CreateSession { session });
        }
        let session = root_id(self.roots.len());
        self.roots.push(session.clone());
        self.born(&session, 8);
        let bind = self.bind(number, &session, true);
        Step::Call { bind, operation: Operation::CreateSession { session } }
    }

    /// A session gets what its model says; one in `hanging` begins with an answer that never comes.
    fn born(&mut self, session: &str, hanging: usize) -> bool {
        let hangs = self.random.one_in(hanging);
        let mut replies: Vec<Reply> = (0..self.random.below(5)).map(|number| self.reply(number)).collect();
        if hangs {
            let text = if self.random.one_in(2) { String::new() } else { "said before".to_owned() };
            replies.insert(0, Reply::Hang { text });
        }
        self.script.insert(session.to_owned(), replies);
        hangs
    }

    /// A handle of this process: seldom one whose object is probably not the one of its session any more.
    fn handle(&mut self) -> String {
        let current = !self.random.one_in(7);
        let of = |current: bool| -> Vec<String> {
            self.handles
                .iter()
                .filter(|handle| handle.alive && (handle.current || !current))
                .map(|handle| handle.name.clone())
                .collect()
        };
        let handles = if current { Some(of(true)).filter(|handles| !handles.is_empty()) } else { None };
        let handles = handles.unwrap_or_else(|| of(false));
        self.random.of(&handles).cloned().expect("a step that needs a handle is drawn only where there is one")
    }

    /// The handle of an agent object that is probably still the one of its session, if there is one.
    fn current(&mut self) -> Option<String> {
        let current: Vec<String> =
            self.handles.iter().filter(|handle| handle.alive && handle.current).map(|handle| handle.name.clone()).collect();
        self.random.of(&current).cloned()
    }

    fn session_of(&self, handle: &str) -> String {
        self.handles.iter().find(|known| known.name == handle).map(|known| known.session.clone()).unwrap_or_default()
    }

    fn session(&mut self) -> String {
        let mut all = self.roots.clone();
        all.extend(self.roots.iter().cloned());
        all.extend(self.children.iter().map(|child| child.id.clone()));
        all.push(root_id(99));
        self.random.of(&all).cloned().expect("it is not empty")
    }

    /// A child: mostly one of `parent`, now and then another one's, or nobody.
    fn child(&mut self, parent: &str) -> String {
        let own: Vec<String> =
            self.children.iter().filter(|child| child.parent == parent).map(|child| child.id.clone()).collect();
        let any: Vec<String> = self.children.iter().map(|child| child.id.clone()).collect();
        let of = match self.random.below(16) {
            0 => Vec::new(),
            1 | 2 => any,
            _ if own.is_empty() => any,
            _ => own,
        };
        self.random.of(&of).cloned().unwrap_or_else(|| child_id(999))
    }

    fn content(&mut self) -> String {
        let texts = ["do it", "more", "", "two\nlines", "ünïcödé ✓", "and then?"];
        texts[self.random.below(texts.len())].to_owned()
    }

    fn start(&mut self, number: usize) -> Step {
        let parent = self.handle();
        let session = self.session_of(&parent);
        let taken = self.random.of(&self.children).map(|child| child.id.clone());
        let (child, id) = match (self.random.below(12), taken) {
            (0 | 1, _) => (None, fresh_id(number)),
            (2, Some(taken)) => (Some(taken.clone()), taken),
            _ => {
                let id = child_id(number);
                (Some(id.clone()), id)
            }
        };
        let known = self.children.iter().any(|child| child.id == id);
        let mut bind = None;
        if !known {
            self.children.push(Child { id: id.clone(), parent: session });
            // What the host calls its child, its model cannot be told beforehand.
            let hangs = child.is_some() && self.born(&id, 2);
            bind = self.bind(number, &id, hangs);
        }
        let provider = if self.random.one_in(16) { "nobody" } else { "spawn" }.to_owned();
        let label = ["kid", "second kid", "k"][self.random.below(3)].to_owned();
        let max_depth =
            if self.random.one_in(6) { Some(u32::try_from(self.random.below(3)).expect("it is below 3")) } else { None };
        let content = self.content();
        Step::Call { bind, operation: Operation::Start { parent, provider, label, child, content, max_depth, options: None } }
    }

    fn deliver(&mut self, number: usize) -> Step {
        let sender = self.handle();
        let session = self.session_of(&sender);
        let target = self.child(&session);
        let own = self.children.iter().any(|child| child.id == target && child.parent == session);
        let bind = if own { self.bind(number, &target, false) } else { None };
        let content = self.content();
        Step::Call { bind, operation: Operation::Deliver { sender, target, content } }
    }

    fn prompt(&mut self) -> Step {
        // The other host serves an agent object that is disposed; what comes of that is not worth many workloads.
        let current = if self.random.one_in(60) { None } else { self.current() };
        let agent = current.unwrap_or_else(|| self.handle());
        let (list, waking) =
            [(List::NextTurn, true), (List::NextStep, true), (List::NextStep, false)][self.random.weighted(&[3, 1, 1])];
        let content = self.content();
        call(Operation::Prompt { agent, list, waking, content })
    }

    fn report(&mut self) -> Step {
        let children: Vec<String> = self
            .handles
            .iter()
            .filter(|handle| handle.alive && handle.current && handle.session.starts_with("c4"))
            .map(|handle| handle.name.clone())
            .collect();
        let child = self.random.of(&children).cloned();
        let sender = if self.random.one_in(6) { None } else { child };
        let sender = sender.unwrap_or_else(|| self.handle());
        let waking = self.random.one_in(2);
        let content = self.content();
        call(Operation::Report { sender, waking, content })
    }

    fn interrupt(&mut self) -> Step {
        let agent = self.handle();
        let session = self.session_of(&agent);
        let target = self.child(&session);
        let parent = self.children.iter().find(|child| child.id == target).map_or(session, |child| child.parent.clone());
        let by = match self.random.below(6) {
            0 => InterruptBy::User { parent: self.session() },
            1 | 2 => InterruptBy::User { parent },
            _ => InterruptBy::Ancestor { agent },
        };
        self.stopped(&target);
        call(Operation::Interrupt { target, by })
    }

    /// A session is probably not the same any more.
    fn stopped(&mut self, session: &str) {
        self.handles.iter_mut().filter(|handle| handle.session == session).for_each(|handle| handle.current = false);
    }

    fn drain_children(&mut self) -> Step {
        let parent = self.handle();
        let session = self.session_of(&parent);
        let children: Vec<String> = (0..1 + self.random.below(2)).map(|_| self.child(&session)).collect();
        children.iter().for_each(|child| self.stopped(child));
        call(Operation::DrainChildren { parent, children })
    }

    /// Only a top-level agent can be disposed by its handle everywhere.
    fn dispose(&mut self) -> Step {
        let of_roots: Vec<String> = self
            .handles
            .iter()
            .filter(|handle| handle.alive && self.roots.contains(&handle.session))
            .map(|handle| handle.name.clone())
            .collect();
        match self.random.of(&of_roots).cloned() {
            Some(agent) => {
                let session = self.session_of(&agent);
                self.stopped(&session);
                call(Operation::DisposeSession { agent })
            }
            None => self.prompt(),
        }
    }

    fn resume(&mut self, number: usize) -> Step {
        let away: Vec<String> = self.roots.iter().filter(|root| !self.is_live(root)).cloned().collect();
        let session = if self.random.one_in(10) { None } else { self.random.of(&away).cloned() };
        match session {
            Some(session) => {
                let bind = self.bind(number, &session, true);
                Step::Call { bind, operation: Operation::ResumeSession { session } }
            }
            None => {
                let session = self.session();
                call(Operation::ResumeSession { session })
            }
        }
    }

    fn reply(&mut self, number: usize) -> Reply {
        let text = if self.random.one_in(4) { String::new() } else { format!("said {number}") };
        match self.random.weighted(&[8, 4, 2, 2, 1]) {
            0 => Reply::Text { text },
            1 => Reply::ToolCall { text, tool: None, input: format!("in {number}") },
            2 => Reply::Failure { text, message: "the model fails".to_owned() },
            3 => Reply::Hang { text },
            _ => Reply::MaxTokens { text },
        }
    }
}

fn call(operation: Operation) -> Step {
    Step::Call { bind: None, operation }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_one_workload_and_many_seeds_are_every_operation() {
        assert_eq!(draw(7), draw(7));
        let verbs: BTreeSet<String> = (0..400)
            .flat_map(|seed| draw(seed).steps)
            .map(|step| match step {
                Step::Call { operation, .. } => format!("{:?}", operation.verb()),
                other => format!("{other:?}"),
            })
            .collect();
        let all = "CreateSession ResumeSession DisposeSession Prompt Start Deliver Report Interrupt DrainDescendants DrainChildren DrainAll ListChildren Flush Stop Kill";
        assert_eq!(verbs, all.split(' ').map(str::to_owned).collect());
    }

    #[test]
    fn every_workload_begins_with_an_agent_and_names_no_handle_that_is_not_there() {
        for seed in 0..400 {
            let mut bound = BTreeSet::new();
            for step in draw(seed).steps {
                let Step::Call { bind, operation } = step else {
                    bound.clear();
                    continue;
                };
                assert!(operation.actor().is_none_or(|handle| bound.contains(handle)), "{seed}: {operation:?}");
                bound.extend(bind);
            }
        }
    }
}
