//! Checks arguments against a tool's input schema before anything is sent.
//!
//! Servers choose schemas and clients choose arguments, and together they can make a check long. What it costs at most is
//! known before (`domain/schema`): a long one runs beside the threads that serve calls, and one that is too long is refused.

mod report;
mod room;

use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::report::{concerns, first_member, largest, line, places, without_values};
pub(crate) use self::room::Room;
use self::room::{NotEnforced, compiled};
use super::check_places::{CheckPlace, CheckPlaces};
use crate::domain::json::{JsonStep, lone_surrogate, without_long_strings};
use crate::domain::plan::ArgumentValidation;
use crate::domain::raw::to_raw;
use crate::domain::schema::{BoundedSchema, Coercion, with_value};

/// The most that a check may cost, as [`BoundedSchema::cost`] tells it: about a second.
const MAX_COST: u64 = 500_000_000;
/// The most that a check may cost on a thread that serves other calls too, and so may finding out where arguments do not fit.
const SMALL_COST: u64 = 200_000;
/// The largest arguments that are checked on such a thread, in bytes.
const SMALL: usize = 256 << 10;

/// What is said of a place that does not fit a schema which clients do not see.
const UNSEEN: &str = "does not fit the server's own schema, which is another one than the list shows";

/// What is said of a string that is no Unicode text.
const LONE_SURROGATE: &str =
    "a surrogate without its pair (half of a character, such as \\ud83c alone): send whole characters";

/// The schema check of one tool's arguments. Later snapshots reuse it if the schema stays the same.
pub(crate) struct Arguments {
    schema: Option<Arc<RawValue>>,
    validation: ArgumentValidation,
    validator: Option<BoundedSchema>,
    coercion: Option<Coercion>,
    /// What the schema takes of the room of its upstream.
    taken: Room,
    /// The room that did not suffice.
    lacked: Option<Room>,
    /// Why the schema cannot be enforced although it should be; `None` if it is enforced or does not have to be.
    pub(crate) not_enforced: Option<String>,
}

impl Arguments {
    /// Returns `old`, the earlier check of the tool with the same name, if the schema and `validation` are the same.
    /// Otherwise compiles a new check. What the schema takes is taken from `room`, that of its upstream.
    pub(crate) fn reuse_or_compile(
        schema: Option<&Arc<RawValue>>,
        validation: ArgumentValidation,
        old: Option<&Arc<Self>>,
        room: &mut Room,
    ) -> Arc<Self> {
        let text = schema.map(|schema| schema.get());
        let same = |old: &&Arc<Self>| old.validation == validation && old.schema.as_deref().map(RawValue::get) == text;
        let would_end_so = |old: &&Arc<Self>| match &old.lacked {
            Some(lacked) => room.is_within(lacked),
            None => old.taken.is_within(room),
        };
        let check = old.filter(same).filter(would_end_so).cloned();
        let check = check.unwrap_or_else(|| Arc::new(Self::compile(schema.cloned(), validation, room)));
        room.take(&check.taken);
        check
    }

    fn compile(schema: Option<Arc<RawValue>>, validation: ArgumentValidation, room: &Room) -> Self {
        let mut taken = Room::NONE;
        let enforced = schema.as_deref().filter(|_| validation != ArgumentValidation::Off);
        let (validator, why) = match enforced.map(|it| compiled(it, room, &mut taken)) {
            Some(Ok(compiled)) => (Some(compiled), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        // A schema that is recursive or large is not enforced, so it has no validator.
        let coerces = validation == ArgumentValidation::Coerce && validator.is_some();
        let coercion = enforced.filter(|_| coerces).and_then(|schema| Coercion::of(schema.get()));
        let lacked = matches!(why, Some(NotEnforced::LacksRoom)).then_some(*room);
        Self { schema, validation, validator, coercion, taken, lacked, not_enforced: why.map(|why| why.to_string()) }
    }

    /// Returns the arguments with [texts coerced](Coercion::coerced); `None` if none is. Only schemas and arguments are looked at
    /// whose check is short: the cost of others has no bound.
    pub(crate) fn coerced(&self, arguments: &str) -> Option<String> {
        let is_short = self.validator.as_ref()?.cost(arguments) <= SMALL_COST;
        self.coercion.as_ref().filter(|_| is_short)?.coerced(arguments)
    }

    /// Checks `arguments`, a JSON text. A long check takes a place of the upstream.
    ///
    /// # Errors
    /// The places that do not match the schema, one per line, so that a model can correct the arguments.
    pub(crate) async fn check(self: &Arc<Self>, arguments: &str, places: &CheckPlaces) -> Result<(), String> {
        self.judge(arguments, places, self, |error| line(&error.instance_path().to_string(), &with_value(error))).await
    }

    /// Like [`Self::check`], at once, for a schema of the gateway's own, whose check is never long.
    pub(crate) fn check_at_once(&self, arguments: &str) -> Result<(), String> {
        let said = |error: &ValidationError<'_>| line(&error.instance_path().to_string(), &with_value(error));
        self.try_out(arguments).map_err(|misfit| self.explained(misfit, arguments, self, said))
    }

    /// Like [`Self::check`], for arguments that a plugin changed. The plugin may have inserted values that the client
    /// must not see, such as a credential. So the error says where and what is wrong, but contains no values, and only
    /// those member names that occur in the schema.
    pub(crate) async fn check_changed(self: &Arc<Self>, arguments: &str, places: &CheckPlaces) -> Result<(), String> {
        self.check_completed(arguments, places, None, |_| false).await
    }

    /// Like [`Self::check_changed`], for arguments to which the gateway may have added values. Of arguments that `is_hidden`
    /// names, the error does not even contain the names. Where clients see another schema than this one, that of `seen`, the
    /// error contains nothing of this one: it says where arguments do not fit, by the names in the other.
    pub(crate) async fn check_completed(
        self: &Arc<Self>,
        arguments: &str,
        places: &CheckPlaces,
        seen: Option<&Arc<Self>>,
        is_hidden: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<(), String> {
        let named = seen.unwrap_or(self);
        self.judge(arguments, places, named, |error| {
            if concerns(error, &is_hidden) {
                return "an argument that the gateway sets does not fit, and its owner has to correct that".to_owned();
            }
            let what = if seen.is_some() { UNSEEN.to_owned() } else { without_values(error) };
            line(&named.known_place(error), &what)
        })
        .await
    }

    /// Whether the argument fits, whatever the others are: it has a value that the schema allows, and the schema does not
    /// forbid what it does not name. One whose check would take long counts as fitting.
    pub(crate) fn fits(&self, name: &str, value: &Value) -> bool {
        let Some(validator) = &self.validator else { return true };
        let arguments = json!({name: value});
        let concerns = |error: ValidationError<'_>| match (first_member(&error), error.kind()) {
            (Some(member), _) => member == name,
            (None, ValidationErrorKind::AdditionalProperties { unexpected }) => unexpected.iter().any(|it| it == name),
            _ => false,
        };
        validator.cost(&arguments.to_string()) > SMALL_COST || !validator.mismatches(&arguments).any(concerns)
    }

    /// Whether the schema is enforced.
    pub(crate) fn are_checked(&self) -> bool {
        self.validator.is_some()
    }

    fn known_place(&self, error: &ValidationError<'_>) -> String {
        let steps = error.instance_path().segments().map(|segment| match segment {
            LocationSegment::Property(name) => JsonStep::Member(name.to_string()),
            LocationSegment::Index(index) => JsonStep::Element(index),
        });
        self.place_of(steps)
    }

    /// Returns the place with those names that are in the schema, and `*` for the others.
    fn place_of(&self, steps: impl IntoIterator<Item = JsonStep>) -> String {
        let mut place = String::new();
        for step in steps {
            place.push('/');
            match step {
                JsonStep::Member(name) if self.knows(&name) => place.push_str(&name),
                JsonStep::Member(_) => place.push('*'),
                JsonStep::Element(index) => place.push_str(&index.to_string()),
            }
        }
        place
    }

    /// Whether the name is somewhere in the schema.
    fn knows(&self, name: &str) -> bool {
        self.schema.as_deref().is_some_and(|schema| schema.get().contains(to_raw(&name).get()))
    }

    /// Checks arguments, and says what is wrong with them: `line` of each place, or which argument is too much, if `named`
    /// has its name.
    async fn judge(
        self: &Arc<Self>,
        arguments: &str,
        places: &CheckPlaces,
        named: &Self,
        line: impl Fn(&ValidationError<'_>) -> String + Send,
    ) -> Result<(), String> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let tried = match validator.cost(arguments) {
            cost if cost > MAX_COST => Err(Misfit::TooMuch),
            cost if cost > SMALL_COST || arguments.len() > SMALL => {
                let place = places.take(arguments.len()).await;
                self.try_out_elsewhere(arguments, place).await
            }
            _ => self.try_out(arguments),
        };
        tried.map_err(|misfit| self.explained(misfit, arguments, named, line))
    }

    fn try_out(&self, arguments: &str) -> Result<(), Misfit> {
        let Some(validator) = &self.validator else { return Ok(()) };
        // If no keyword depends on the text of a string, long ones are left out: to remove their escapes takes longest.
        let short = if validator.reads_strings() { None } else { without_long_strings(arguments) };
        let short = short.and_then(|short| serde_json::from_str(&short).ok());
        if short.is_some_and(|value| validator.is_valid(&value)) {
            return Ok(());
        }
        let value: Value = serde_json::from_str(arguments).map_err(|error| match lone_surrogate(arguments) {
            Some(steps) => Misfit::LoneSurrogate(steps),
            None => Misfit::Unreadable(error),
        })?;
        if validator.is_valid(&value) { Ok(()) } else { Err(Misfit::Places(value)) }
    }

    /// Like [`Self::try_out`], on a thread that serves no calls. The place is given back when the check has ended, even if
    /// nobody waits for it any more.
    async fn try_out_elsewhere(self: &Arc<Self>, arguments: &str, place: CheckPlace) -> Result<(), Misfit> {
        let (check, arguments) = (Arc::clone(self), arguments.to_owned());
        let tried = tokio::task::spawn_blocking(move || {
            let tried = check.try_out(&arguments);
            drop(place);
            tried
        });
        tried.await.unwrap_or(Err(Misfit::Failed))
    }

    /// Says what is wrong with arguments.
    fn explained(
        &self,
        misfit: Misfit,
        arguments: &str,
        named: &Self,
        line: impl Fn(&ValidationError<'_>) -> String,
    ) -> String {
        match (misfit, &self.validator) {
            (Misfit::LoneSurrogate(steps), _) => report::line(&named.place_of(steps), &LONE_SURROGATE),
            (Misfit::Unreadable(error), _) => format!("arguments: they cannot be read: {error}"),
            (Misfit::Places(value), Some(validator)) if validator.cost(arguments) <= SMALL_COST => {
                places(validator, &value, line)
            }
            (Misfit::Places(_), _) => {
                "arguments: they do not fit the input schema, and have too many values to say where".to_owned()
            }
            (Misfit::TooMuch, _) => {
                let name = largest(arguments).filter(|name| named.knows(name));
                let place = name.map(|name| format!("/{name}")).unwrap_or_default();
                format!(
                    "arguments{place}: there are too many values, or they are too long, to be checked against the input schema"
                )
            }
            (Misfit::Failed, _) => "arguments: they could not be checked".to_owned(),
        }
    }
}

/// Why arguments are not sent.
enum Misfit {
    /// A string has a surrogate without its pair, so that there is no text to check.
    LoneSurrogate(Vec<JsonStep>),
    /// They hold a value that cannot be checked, such as a number beyond a double.
    Unreadable(serde_json::Error),
    /// They do not fit.
    Places(Value),
    /// The check could take too long.
    TooMuch,
    /// The check failed.
    Failed,
}

#[cfg(test)]
mod tests;
