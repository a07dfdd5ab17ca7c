//! A model that plays a script, for every environment. Owns the place in the script; must never decide when it answers (holds, delays and the caller's signal do).

use std::borrow::Borrow;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

use hostproof_spec::history::Answer;
use hostproof_spec::names::Sym;
use hostproof_spec::script::{ModelScript, Reply};
use hostproof_spec::wire::HoldPoint;
use rustc_hash::FxHashMap;

use crate::env::select::{Either, select2};
use crate::env::{Env, LocalFuture, Model, ModelAnswer, ModelRequest, ToolCall};
use crate::tools::ECHO;

/// How long a request takes before it is answered: `None` is at once.
pub type Delay = Rc<dyn Fn(&ModelRequest) -> Option<LocalFuture<()>>>;

/// Answers from a [`ModelScript`].
///
/// A reply is taken when the call is made, in the order of the calls of a session. Replies that the script spells out say exactly that; the default reply is
/// followed by session, turn and step (`ok <session> t1 s1`), so that every answer can be traced to its request. A raised signal ends a call at any time, also
/// while it is held or delayed; a `hang` ends in no other way.
pub struct ScriptedModel {
    env: Weak<dyn Env>,
    delay: Option<Delay>,
    script: Rc<dyn Borrow<ModelScript>>,
    /// Calls that each session made.
    calls: RefCell<FxHashMap<Sym, usize>>,
}

impl ScriptedModel {
    /// A model of `env` at the beginning of `script`.
    #[must_use]
    pub fn new(env: Weak<dyn Env>, script: Rc<dyn Borrow<ModelScript>>, delay: Option<Delay>) -> Self {
        Self { env, delay, script, calls: RefCell::default() }
    }

    /// The next reply for the session, and whether it is the default.
    fn take(&self, session: Sym, name: &str) -> (Reply, bool) {
        let mut calls = self.calls.borrow_mut();
        let call = calls.entry(session).or_default();
        let script: &ModelScript = (*self.script).borrow();
        let scripted = script.sessions.get(name).and_then(|replies| replies.get(*call));
        *call += 1;
        match scripted {
            Some(reply) => (reply.clone(), false),
            None => (script.default.clone().unwrap_or_default(), true),
        }
    }
}

impl Model for ScriptedModel {
    fn call(&self, request: ModelRequest) -> LocalFuture<ModelAnswer> {
        let Some(env) = self.env.upgrade() else {
            // The process is gone; nobody is left who could be answered.
            return Box::pin(std::future::pending());
        };
        let name = env.names().text(request.session);
        let (mut reply, is_default) = self.take(request.session, &name);
        if is_default {
            trace(&mut reply, &format!(" {name} t{} s{}", request.turn, request.step));
        }
        let held = env.hold(HoldPoint::ModelRequest, Some(request.session));
        let delay = self.delay.as_ref().and_then(|delay| delay(&request));
        Box::pin(async move {
            if request.signal.is_cancelled() {
                return answer(Answer::Cancelled, "");
            }
            let before = async {
                let held = match held {
                    Some(held) => held.await,
                    None => Ok(()),
                };
                if let Some(delay) = delay {
                    delay.await;
                }
                held
            };
            match select2(&*env, "model/cancelled", request.signal.cancelled(), before).await {
                Either::First(()) => return answer(Answer::Cancelled, ""),
                Either::Second(Ok(())) => {}
                Either::Second(Err(injected)) => {
                    return ModelAnswer { failure: Some(Rc::from(injected.to_string())), ..answer(Answer::Failure, "") };
                }
            }
            match reply {
                Reply::Text { text } => answer(Answer::Text, &text),
                Reply::MaxTokens { text } => answer(Answer::MaxTokens, &text),
                Reply::Refusal => answer(Answer::Refusal, ""),
                Reply::Failure { text, message } => {
                    ModelAnswer { failure: Some(Rc::from(message)), ..answer(Answer::Failure, &text) }
                }
                Reply::ToolCall { text, tool, input } => {
                    let id = Rc::from(format!("call-{}-{}", request.turn, request.step));
                    let tool = tool.map_or_else(|| Rc::from(ECHO), Rc::from);
                    let call = ToolCall { id, tool, input: Rc::from(input) };
                    ModelAnswer { tools: vec![call], ..answer(Answer::ToolCalls, &text) }
                }
                Reply::Hang { text } => {
                    request.signal.cancelled().await;
                    answer(Answer::Cancelled, &text)
                }
            }
        })
    }
}

fn answer(answer: Answer, text: &str) -> ModelAnswer {
    ModelAnswer { answer, text: Rc::from(text), tools: Vec::new(), failure: None }
}

/// Adds what makes the text unique, unless the reply has none.
fn trace(reply: &mut Reply, suffix: &str) {
    match reply {
        Reply::Text { text }
        | Reply::ToolCall { text, .. }
        | Reply::Failure { text, .. }
        | Reply::Hang { text }
        | Reply::MaxTokens { text } => {
            if !text.is_empty() {
                text.push_str(suffix);
            }
        }
        Reply::Refusal => {}
    }
}
