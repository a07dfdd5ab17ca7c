//! Contributions to the setup of children. Owns who is registered, what each installed where, and when that is released; must never let a child come to life
//! with something that was revoked while it was made, nor release anything twice.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::SetupConduct;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::sometimes;

use super::Subagents;
use super::error::SubagentError;
use crate::agent::PublicationGate;
use crate::env::Env;
use crate::planted;

/// Takes back what was installed.
pub type Release = Box<dyn FnOnce() -> Result<(), String>>;

/// Something that sets up every child before it is published.
pub trait Contribution {
    /// Sets up one child that nobody can see yet, synchronously. What it returns is called once, when the child goes or the contribution does.
    ///
    /// # Errors
    /// Text for people; the child is not made.
    fn install(&self, session: Sym) -> Result<Release, String>;
}

struct Registered {
    name: Sym,
    body: Rc<dyn Contribution>,
    revoked: Cell<bool>,
    installed: RefCell<Vec<Rc<Installation>>>,
}

/// One contribution in one child.
struct Installation {
    session: Sym,
    setup: Sym,
    of: Rc<Registered>,
    /// Taken by whoever releases it first.
    release: RefCell<Option<Release>>,
}

/// The contributions of a host, in order of registration.
pub struct Setups {
    env: Rc<dyn Env>,
    known: RefCell<Vec<Rc<Registered>>>,
}

/// What was installed into one child.
#[derive(Clone, Default)]
pub(super) struct Batch(Vec<Rc<Installation>>);

impl Subagents {
    /// The question whether a child may be published that was set up so; none where nothing was.
    pub(super) fn gate(&self, batch: &Batch) -> Option<PublicationGate> {
        if batch.0.is_empty() {
            return None;
        }
        let (setups, batch) = (self.setups.clone(), batch.clone());
        Some(Box::new(move || setups.may_publish(&batch)))
    }
}

impl Setups {
    pub(super) fn new(env: Rc<dyn Env>) -> Rc<Self> {
        Rc::new(Self { env, known: RefCell::default() })
    }

    /// Registers a contribution. Children that are there are not touched: it counts from the next one on.
    ///
    /// # Errors
    /// Busy when the name is taken.
    pub fn add(&self, op: Option<Sym>, name: Sym, body: Rc<dyn Contribution>) -> Result<(), SubagentError> {
        let taken = self.known.borrow().iter().any(|known| known.name == name);
        if taken {
            return Err(SubagentError::plain(
                RefusalClass::Busy,
                format!("a setup contribution \"{}\" is registered already", self.env.names().text(name)),
            ));
        }
        let registered = Registered { name, body, revoked: Cell::new(false), installed: RefCell::default() };
        self.known.borrow_mut().push(Rc::new(registered));
        self.tell(op, Fact::SetupChanged { setup: name, registered: true });
        Ok(())
    }

    /// Removes a contribution, and at once what it installed into children that live.
    ///
    /// # Errors
    /// Absent when there is none of that name; `ACTIVATION_SETUP_RELEASE_FAILED` after every release was attempted.
    pub fn remove(&self, op: Option<Sym>, name: Sym) -> Result<(), SubagentError> {
        let removed = {
            let mut known = self.known.borrow_mut();
            known.iter().position(|known| known.name == name).map(|index| known.remove(index))
        };
        let Some(removed) = removed else {
            return Err(SubagentError::plain(
                RefusalClass::Absent,
                format!("no setup contribution \"{}\" is registered", self.env.names().text(name)),
            ));
        };
        removed.revoked.set(true);
        self.tell(op, Fact::SetupChanged { setup: name, registered: false });
        let installed = removed.installed.take();
        sometimes!(self.env, !installed.is_empty(), "subagent/setup-revoked-while-installed");
        let failures: Vec<String> = installed.iter().filter_map(|one| self.release(op, one).err()).collect();
        release_failure(&failures)
    }

    /// Installs every contribution into a child that is being made, in order of registration. What one of them does to the others counts at once.
    ///
    /// # Errors
    /// The failure of the first one that fails; those before it are released, those after it are not asked.
    pub(super) fn install(&self, op: Option<Sym>, session: Sym) -> Result<Batch, SubagentError> {
        let known = self.known.borrow().clone();
        let mut batch = Batch::default();
        for registered in known {
            if registered.revoked.get() {
                continue;
            }
            match registered.body.install(session) {
                Ok(release) => {
                    let setup = registered.name;
                    let of = registered.clone();
                    let one = Rc::new(Installation { session, setup, of, release: RefCell::new(Some(release)) });
                    registered.installed.borrow_mut().push(one.clone());
                    batch.0.push(one.clone());
                    self.tell(op, Fact::SetupInstalled { session, setup });
                    if registered.revoked.get()
                        && let Err(error) = self.release(op, &one)
                    {
                        self.env.warn(&format!("a contribution that revoked itself: {error}"));
                    }
                }
                Err(why) => {
                    sometimes!(self.env, true, "subagent/setup-failed");
                    self.take_back(op, &batch);
                    return Err(SubagentError::plain(RefusalClass::Failed, format!("the setup of a subagent failed: {why}")));
                }
            }
        }
        Ok(batch)
    }

    /// Whether everything that was installed may be published. Asked in the span of the publication.
    fn may_publish(&self, batch: &Batch) -> bool {
        let revoked = batch.0.iter().any(|one| one.of.revoked.get());
        sometimes!(self.env, revoked, "subagent/setup-revoked-before-publication");
        !revoked || planted!(self.env, C05)
    }

    /// Releases what is left of a batch, in order of installation; every one is attempted.
    ///
    /// # Errors
    /// `ACTIVATION_SETUP_RELEASE_FAILED` with all failures.
    pub(super) fn release_all(&self, op: Option<Sym>, batch: &Batch) -> Result<(), SubagentError> {
        let failures: Vec<String> = batch.0.iter().filter_map(|one| self.release(op, one).err()).collect();
        release_failure(&failures)
    }

    /// Releases the batch of a child that is not made. The caller sees why it is not, whatever happens here.
    pub(super) fn take_back(&self, op: Option<Sym>, batch: &Batch) {
        if let Err(error) = self.release_all(op, batch) {
            self.env.warn(&format!("the setup of a refused subagent: {error}"));
        }
    }

    /// Whoever comes first releases.
    fn release(&self, op: Option<Sym>, one: &Rc<Installation>) -> Result<(), String> {
        let Some(release) = one.release.take() else { return Ok(()) };
        one.of.installed.borrow_mut().retain(|known| !Rc::ptr_eq(known, one));
        let released = release();
        self.tell(op, Fact::SetupReleased { session: one.session, setup: one.setup });
        released
    }

    fn tell(&self, op: Option<Sym>, fact: Fact<Sym>) {
        if self.env.emit(op, None, fact).is_err() {
            self.env.warn("an observer of setup contributions threw; it was contained");
        }
    }
}

fn release_failure(failures: &[String]) -> Result<(), SubagentError> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(SubagentError::coded(
        "ACTIVATION_SETUP_RELEASE_FAILED",
        format!("{} setup contributions could not be released: {}", failures.len(), failures.join("; ")),
    ))
}

/// The refusal of a child whose setup was revoked while it was made.
pub(super) fn revoked(child: &str) -> SubagentError {
    SubagentError::coded(
        "ACTIVATION_SETUP_REVOKED",
        format!("subagent \"{child}\": a setup contribution was revoked before the activation was published"),
    )
}

/// A contribution that does as it was told: what a request that is data can ask for.
pub struct Scripted {
    setups: std::rc::Weak<Setups>,
    name: Sym,
    conduct: SetupConduct,
}

impl Scripted {
    /// A contribution to `setups`.
    #[must_use]
    pub fn new(setups: &Rc<Setups>, name: Sym, conduct: SetupConduct) -> Rc<Self> {
        Rc::new(Self { setups: Rc::downgrade(setups), name, conduct })
    }
}

impl Contribution for Scripted {
    fn install(&self, _session: Sym) -> Result<Release, String> {
        match self.conduct {
            SetupConduct::FailsToInstall => return Err("the contribution fails to install, as it was told".to_owned()),
            SetupConduct::RevokesItself => {
                if let Some(setups) = self.setups.upgrade() {
                    setups.remove(None, self.name).map_err(|error| error.to_string())?;
                }
            }
            SetupConduct::Plain | SetupConduct::FailsToRelease => {}
        }
        let fails = self.conduct == SetupConduct::FailsToRelease;
        Ok(Box::new(move || if fails { Err("the contribution fails to release, as it was told".to_owned()) } else { Ok(()) }))
    }
}
