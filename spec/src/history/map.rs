//! Facts under another identifier type: symbols to text for the wire, text to symbols for the checkers. Owns the walk over every identifier of a
//! fact; must never drop or invent one.

use super::{Authority, Event, Fact, Source};
use crate::names::{Names, Sym};

impl<I> Authority<I> {
    /// The same authority with every identifier replaced.
    pub fn map<J>(self, mut f: impl FnMut(I) -> J) -> Authority<J> {
        match self {
            Self::Object => Authority::Object,
            Self::Address { parent } => Authority::Address { parent: f(parent) },
            Self::Holder => Authority::Holder,
        }
    }
}

impl<I> Source<I> {
    /// The same source with every identifier replaced.
    pub fn map<J>(self, mut f: impl FnMut(I) -> J) -> Source<J> {
        match self {
            Self::User => Source::User,
            Self::Agent { sender } => Source::Agent { sender: f(sender) },
            Self::Report { child } => Source::Report { child: f(child) },
            Self::Notice { child } => Source::Notice { child: f(child) },
        }
    }
}

impl<I> Event<I> {
    /// The same event with every identifier replaced, in the order in which the fields are declared.
    pub fn map<J>(self, mut f: impl FnMut(I) -> J) -> Event<J> {
        Event {
            lc: self.lc,
            process: self.process,
            incarnation: self.incarnation,
            span: self.span,
            op: self.op.map(&mut f),
            actor: self.actor.map(&mut f),
            phase: self.phase,
            fact: self.fact.map(f),
        }
    }
}

impl Event<Sym> {
    /// The event as the wire shows it.
    #[must_use]
    pub fn to_text(&self, names: &Names) -> Event<String> {
        self.map(|sym| names.text(sym).as_ref().to_owned())
    }
}

impl Event<String> {
    /// The event inside a process; new names are interned in the order in which the fields are declared.
    #[must_use]
    pub fn intern(&self, names: &Names) -> Event<Sym> {
        self.clone().map(|text| names.intern(&text))
    }
}

impl<I> Fact<I> {
    /// The same fact with every identifier replaced, in the order in which the fields are declared.
    pub fn map<J>(self, mut f: impl FnMut(I) -> J) -> Fact<J> {
        match self {
            Self::ProcessStarted => Fact::ProcessStarted,
            Self::ProcessCrashed => Fact::ProcessCrashed,
            Self::ProcessStopped => Fact::ProcessStopped,
            Self::FaultsStopped => Fact::FaultsStopped,
            Self::Quiet => Fact::Quiet,
            Self::Invoked { verb, target, authority } => {
                Fact::Invoked { verb, target: target.map(&mut f), authority: authority.map(f) }
            }
            Self::Succeeded { child, message } => Fact::Succeeded { child: child.map(&mut f), message: message.map(f) },
            Self::Refused { class, code } => Fact::Refused { class, code: code.map(f) },
            Self::Unknown => Fact::Unknown,
            Self::Aborted => Fact::Aborted,
            Self::SessionEntered { session } => Fact::SessionEntered { session: f(session) },
            Self::SessionLeft { session } => Fact::SessionLeft { session: f(session) },
            Self::AgentEntered { session, agent, parent } => {
                Fact::AgentEntered { session: f(session), agent: f(agent), parent: parent.map(f) }
            }
            Self::AgentLeft { session, agent } => Fact::AgentLeft { session: f(session), agent: f(agent) },
            Self::DisposalOpened { session, agent } => Fact::DisposalOpened { session: f(session), agent: f(agent) },
            Self::ActivationOpened { session, epoch, agent } => {
                Fact::ActivationOpened { session: f(session), epoch: f(epoch), agent: f(agent) }
            }
            Self::Owned { owner, child } => Fact::Owned { owner: f(owner), child: f(child) },
            Self::Disowned { owner, child } => Fact::Disowned { owner: f(owner), child: f(child) },
            Self::ActivationClosing { session, epoch, cause } => {
                Fact::ActivationClosing { session: f(session), epoch: f(epoch), cause }
            }
            Self::ActivationReleased { session, epoch } => Fact::ActivationReleased { session: f(session), epoch: f(epoch) },
            Self::StartEdge { session, run } => Fact::StartEdge { session: f(session), run: f(run) },
            Self::EndEdge { session, run, reason, text } => {
                Fact::EndEdge { session: f(session), run: f(run), reason, text: text.map(f) }
            }
            Self::Inserted { session, message, list, waking, source, seq } => {
                Fact::Inserted { session: f(session), message: f(message), list, waking, source: source.map(f), seq }
            }
            Self::Claimed { session, message, turn, seq } => {
                Fact::Claimed { session: f(session), message: f(message), turn, seq }
            }
            Self::Discarded { session, message, cause, seq } => {
                Fact::Discarded { session: f(session), message: f(message), cause, seq }
            }
            Self::Replaced { session, message, seq } => Fact::Replaced { session: f(session), message: f(message), seq },
            Self::Restored { session, message, list } => Fact::Restored { session: f(session), message: f(message), list },
            Self::StatusChanged { session, running } => Fact::StatusChanged { session: f(session), running },
            Self::TurnStarted { session, turn } => Fact::TurnStarted { session: f(session), turn },
            Self::TurnEnded { session, turn, reason } => Fact::TurnEnded { session: f(session), turn, reason },
            Self::ModelAsked { session, turn, step } => Fact::ModelAsked { session: f(session), turn, step },
            Self::ModelShown { session, message } => Fact::ModelShown { session: f(session), message: f(message) },
            Self::ModelAnswered { session, turn, step, answer, text } => {
                Fact::ModelAnswered { session: f(session), turn, step, answer, text: text.map(f) }
            }
            Self::CancelIssued { session, cause, keeps_inbox } => Fact::CancelIssued { session: f(session), cause, keeps_inbox },
            Self::Appended { session, seq, record } => Fact::Appended { session: f(session), seq, record },
            Self::Durable { session, end } => Fact::Durable { session: f(session), end },
            Self::LogLoaded { session, end } => Fact::LogLoaded { session: f(session), end },
            Self::Repaired { session, kept, closers } => Fact::Repaired { session: f(session), kept, closers },
            Self::FileState { session, digest } => Fact::FileState { session: f(session), digest },
            Self::CatalogRow { parent, child } => Fact::CatalogRow { parent: f(parent), child: f(child) },
            Self::Listed { parent, index, session, row, created_at } => {
                Fact::Listed { parent: f(parent), index, session: f(session), row, created_at }
            }
            Self::ScopeClosed { root } => Fact::ScopeClosed { root: f(root) },
            Self::ScopeOpened { root } => Fact::ScopeOpened { root: f(root) },
            Self::Fault { session, fault } => Fact::Fault { session: session.map(f), fault },
            Self::ProviderAdded { provider } => Fact::ProviderAdded { provider: f(provider) },
            Self::ProviderRemoved { provider } => Fact::ProviderRemoved { provider: f(provider) },
            Self::RunPublished { session, run, provider, parent, agent } => Fact::RunPublished {
                session: f(session),
                run: f(run),
                provider: f(provider),
                parent: f(parent),
                agent: agent.map(f),
            },
            Self::RunSettled { session, run, reason, text, structured, diagnostic } => Fact::RunSettled {
                session: f(session),
                run: f(run),
                reason,
                text: text.map(&mut f),
                structured,
                diagnostic: diagnostic.map(f),
            },
            Self::RunFailed { session, run } => Fact::RunFailed { session: f(session), run: f(run) },
            Self::RunReleased { session, run } => Fact::RunReleased { session: f(session), run: f(run) },
            Self::ToolOffered { session, tool, offered } => Fact::ToolOffered { session: f(session), tool: f(tool), offered },
            Self::ToolStarted { session, turn, call, tool } => {
                Fact::ToolStarted { session: f(session), turn, call: f(call), tool: f(tool) }
            }
            Self::ToolEnded { session, turn, call, tool, failed, text } => {
                Fact::ToolEnded { session: f(session), turn, call: f(call), tool: f(tool), failed, text: f(text) }
            }
            Self::PartChanged { part, mounted } => Fact::PartChanged { part, mounted },
            Self::ListenerChanged { listener, scope, listens } => {
                Fact::ListenerChanged { listener: f(listener), scope: scope.map(f), listens }
            }
            Self::Heard { listener, session, run, ended } => {
                Fact::Heard { listener: f(listener), session: f(session), run: f(run), ended }
            }
            Self::ListedBelow { root, index, session, row, parent, depth, has_children, created_at } => Fact::ListedBelow {
                root: f(root),
                index,
                session: f(session),
                row,
                parent: f(parent),
                depth,
                has_children,
                created_at,
            },
            Self::Projected { session, unit, value, as_of, from } => {
                Fact::Projected { session: f(session), unit: f(unit), value: f(value), as_of, from }
            }
            Self::Inherited { session, from, records } => Fact::Inherited { session: f(session), from: f(from), records },
            Self::PreStep { session, turn, step, verdict } => Fact::PreStep { session: f(session), turn, step, verdict },
            Self::Maintained { session, active } => Fact::Maintained { session: f(session), active },
            Self::Compacted { session, seq, replaced } => Fact::Compacted { session: f(session), seq, replaced },
            Self::Described { session, aspect, value } => Fact::Described { session: f(session), aspect, value: f(value) },
            Self::Composed { session, agent, aspect, value } => {
                Fact::Composed { session: f(session), agent: f(agent), aspect, value: f(value) }
            }
            Self::PolicyCaptured { parent, child, policy } => Fact::PolicyCaptured { parent: f(parent), child: f(child), policy },
            Self::PolicyIs { session, policy } => Fact::PolicyIs { session: f(session), policy },
            Self::SetupInstalled { session, setup } => Fact::SetupInstalled { session: f(session), setup: f(setup) },
            Self::SetupReleased { session, setup } => Fact::SetupReleased { session: f(session), setup: f(setup) },
            Self::SetupChanged { setup, registered } => Fact::SetupChanged { setup: f(setup), registered },
        }
    }

    /// The tag of the fact on the wire, such as `turn-started`.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::ProcessStarted => "process-started",
            Self::ProcessCrashed => "process-crashed",
            Self::ProcessStopped => "process-stopped",
            Self::FaultsStopped => "faults-stopped",
            Self::Quiet => "quiet",
            Self::Invoked { .. } => "invoked",
            Self::Succeeded { .. } => "succeeded",
            Self::Refused { .. } => "refused",
            Self::Unknown => "unknown",
            Self::Aborted => "aborted",
            Self::SessionEntered { .. } => "session-entered",
            Self::SessionLeft { .. } => "session-left",
            Self::AgentEntered { .. } => "agent-entered",
            Self::AgentLeft { .. } => "agent-left",
            Self::DisposalOpened { .. } => "disposal-opened",
            Self::ActivationOpened { .. } => "activation-opened",
            Self::Owned { .. } => "owned",
            Self::Disowned { .. } => "disowned",
            Self::ActivationClosing { .. } => "activation-closing",
            Self::ActivationReleased { .. } => "activation-released",
            Self::StartEdge { .. } => "start-edge",
            Self::EndEdge { .. } => "end-edge",
            Self::Inserted { .. } => "inserted",
            Self::Claimed { .. } => "claimed",
            Self::Discarded { .. } => "discarded",
            Self::Replaced { .. } => "replaced",
            Self::Restored { .. } => "restored",
            Self::StatusChanged { .. } => "status-changed",
            Self::TurnStarted { .. } => "turn-started",
            Self::TurnEnded { .. } => "turn-ended",
            Self::ModelAsked { .. } => "model-asked",
            Self::ModelShown { .. } => "model-shown",
            Self::ModelAnswered { .. } => "model-answered",
            Self::CancelIssued { .. } => "cancel-issued",
            Self::Appended { .. } => "appended",
            Self::Durable { .. } => "durable",
            Self::LogLoaded { .. } => "log-loaded",
            Self::Repaired { .. } => "repaired",
            Self::FileState { .. } => "file-state",
            Self::CatalogRow { .. } => "catalog-row",
            Self::Listed { .. } => "listed",
            Self::ScopeClosed { .. } => "scope-closed",
            Self::ScopeOpened { .. } => "scope-opened",
            Self::Fault { .. } => "fault",
            Self::ProviderAdded { .. } => "provider-added",
            Self::ProviderRemoved { .. } => "provider-removed",
            Self::RunPublished { .. } => "run-published",
            Self::RunSettled { .. } => "run-settled",
            Self::RunFailed { .. } => "run-failed",
            Self::RunReleased { .. } => "run-released",
            Self::ToolOffered { .. } => "tool-offered",
            Self::ToolStarted { .. } => "tool-started",
            Self::ToolEnded { .. } => "tool-ended",
            Self::PartChanged { .. } => "part-changed",
            Self::ListenerChanged { .. } => "listener-changed",
            Self::Heard { .. } => "heard",
            Self::ListedBelow { .. } => "listed-below",
            Self::Projected { .. } => "projected",
            Self::Inherited { .. } => "inherited",
            Self::PreStep { .. } => "pre-step",
            Self::Maintained { .. } => "maintained",
            Self::Compacted { .. } => "compacted",
            Self::Described { .. } => "described",
            Self::Composed { .. } => "composed",
            Self::PolicyCaptured { .. } => "policy-captured",
            Self::PolicyIs { .. } => "policy-is",
            Self::SetupInstalled { .. } => "setup-installed",
            Self::SetupReleased { .. } => "setup-released",
            Self::SetupChanged { .. } => "setup-changed",
        }
    }

    /// The session that the fact is about: the child of an ownership or catalog fact, the listed row of a listing, the target of an invocation, the
    /// child that a start made known. `None` for facts about processes, scopes (whose root is an agent object) and bare outcomes.
    #[must_use]
    pub fn session(&self) -> Option<&I> {
        match self {
            Self::SessionEntered { session }
            | Self::SessionLeft { session }
            | Self::AgentEntered { session, .. }
            | Self::AgentLeft { session, .. }
            | Self::DisposalOpened { session, .. }
            | Self::ActivationOpened { session, .. }
            | Self::ActivationClosing { session, .. }
            | Self::ActivationReleased { session, .. }
            | Self::StartEdge { session, .. }
            | Self::EndEdge { session, .. }
            | Self::Inserted { session, .. }
            | Self::Claimed { session, .. }
            | Self::Discarded { session, .. }
            | Self::Replaced { session, .. }
            | Self::Restored { session, .. }
            | Self::StatusChanged { session, .. }
            | Self::TurnStarted { session, .. }
            | Self::TurnEnded { session, .. }
            | Self::ModelAsked { session, .. }
            | Self::ModelShown { session, .. }
            | Self::ModelAnswered { session, .. }
            | Self::CancelIssued { session, .. }
            | Self::Appended { session, .. }
            | Self::Durable { session, .. }
            | Self::LogLoaded { session, .. }
            | Self::Repaired { session, .. }
            | Self::FileState { session, .. }
            | Self::RunPublished { session, .. }
            | Self::RunSettled { session, .. }
            | Self::RunFailed { session, .. }
            | Self::RunReleased { session, .. }
            | Self::Listed { session, .. }
            | Self::ToolOffered { session, .. }
            | Self::ToolStarted { session, .. }
            | Self::ToolEnded { session, .. }
            | Self::Heard { session, .. }
            | Self::ListedBelow { session, .. }
            | Self::Projected { session, .. }
            | Self::Inherited { session, .. }
            | Self::PreStep { session, .. }
            | Self::Maintained { session, .. }
            | Self::Compacted { session, .. }
            | Self::Described { session, .. }
            | Self::Composed { session, .. }
            | Self::PolicyIs { session, .. }
            | Self::SetupInstalled { session, .. }
            | Self::SetupReleased { session, .. } => Some(session),
            Self::Owned { child, .. }
            | Self::Disowned { child, .. }
            | Self::CatalogRow { child, .. }
            | Self::PolicyCaptured { child, .. } => Some(child),
            Self::Invoked { target, .. } => target.as_ref(),
            Self::Succeeded { child, .. } => child.as_ref(),
            Self::Fault { session, .. } => session.as_ref(),
            Self::ProcessStarted
            | Self::ProcessCrashed
            | Self::ProcessStopped
            | Self::FaultsStopped
            | Self::Quiet
            | Self::Refused { .. }
            | Self::Unknown
            | Self::Aborted
            | Self::ScopeClosed { .. }
            | Self::ScopeOpened { .. }
            | Self::ProviderAdded { .. }
            | Self::ProviderRemoved { .. }
            | Self::PartChanged { .. }
            | Self::ListenerChanged { .. }
            | Self::SetupChanged { .. } => None,
        }
    }
}
