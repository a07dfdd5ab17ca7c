//! Personas: templates of what an agent is told to be. Owns their grammar and their variables; must never render one half (an unknown variable or an open brace is an
//! error, never text that the model sees).

use std::rc::Rc;

use super::Agent;

/// What a template may name, between `{{` and `}}`.
pub const VARIABLES: [&str; 3] = ["session", "parent", "depth"];

/// A template that cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonaError {
    /// A name between braces that nobody registered.
    #[error("a persona names the unknown variable `{0}`")]
    Unknown(String),
    /// Two opening braces without their end, or an end without its beginning.
    #[error("a persona has unbalanced braces")]
    Unbalanced,
}

/// The text of a persona with every `{{name}}` replaced by what `value` has for it.
///
/// # Errors
/// [`PersonaError`]: nothing is rendered.
pub fn render(template: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, PersonaError> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}").ok_or(PersonaError::Unbalanced)?;
        if before.contains("}}") || name.contains("{{") {
            return Err(PersonaError::Unbalanced);
        }
        let name = name.trim();
        text.push_str(before);
        text.push_str(&value(name).ok_or_else(|| PersonaError::Unknown(name.to_owned()))?);
        rest = behind;
    }
    if rest.contains("}}") {
        return Err(PersonaError::Unbalanced);
    }
    text.push_str(rest);
    Ok(text)
}

/// Whether a template can be rendered for any agent.
///
/// # Errors
/// [`PersonaError`]: for none.
pub fn check(template: &str) -> Result<(), PersonaError> {
    render(template, |name| VARIABLES.contains(&name).then(String::new)).map(drop)
}

impl Agent {
    /// What this agent is told to be: its own persona, else the deployment's; nothing where there is neither.
    ///
    /// # Errors
    /// [`PersonaError`]: a deployment's template that nobody checked.
    pub fn persona(&self) -> Result<Option<Rc<str>>, PersonaError> {
        let own = self.composition().persona.clone();
        let Some(template) = own.or_else(|| self.0.env.settings().persona) else { return Ok(None) };
        let names = self.0.env.names();
        let value = |name: &str| match name {
            "session" => Some(names.text(self.id()).to_string()),
            "parent" => Some(self.header().parent.map(|parent| names.text(parent).to_string()).unwrap_or_default()),
            "depth" => Some(self.composition().depth.to_string()),
            _ => None,
        };
        render(&template, value).map(|text| Some(Rc::from(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str) -> Result<String, PersonaError> {
        render(template, |name| (name == "session").then(|| "s1".to_owned()))
    }

    #[test]
    fn variables_are_replaced_and_nothing_else_is_touched() {
        assert_eq!(rendered("You are {{session}}, {{ session }}. { not one }").as_deref(), Ok("You are s1, s1. { not one }"));
        assert_eq!(rendered("").as_deref(), Ok(""));
    }

    #[test]
    fn a_template_is_rendered_whole_or_not_at_all() {
        assert_eq!(rendered("{{nobody}}"), Err(PersonaError::Unknown("nobody".to_owned())));
        assert_eq!(rendered("{{}}"), Err(PersonaError::Unknown(String::new())));
        for broken in ["{{session", "session}}", "{{a {{session}}", "}} {{session}}"] {
            assert_eq!(rendered(broken), Err(PersonaError::Unbalanced), "{broken}");
        }
    }
}
