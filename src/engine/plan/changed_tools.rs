//! Problems of overrides that do not fit the tools that a server lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::link::Linked;
use super::schema::Arguments;
use crate::domain::changed_tool::faults;
use crate::domain::ids::ObjectId;
use crate::domain::plan::{ArgumentOverride, ToolOverride};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Route, Routes};
use crate::domain::seen::SeenNames;
use crate::engine::catalogue::upstream_state::Catalogue;

/// Warns of overrides that name a tool which the server does not have, and never had.
pub(super) fn unknown_overrides(linked: &Linked, lists: &[Option<Arc<Catalogue>>], seen: &SeenNames) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (upstream, list) in linked.upstreams.iter().zip(lists) {
        let (plan, Some(list)) = (&upstream.target.plan, list) else { continue };
        if list.tools().next().is_none() {
            continue;
        }
        for (index, change) in plan.overrides.iter().enumerate() {
            let had = seen.of(&plan.key).is_some_and(|seen| seen.contains(&change.name));
            if !had && !list.tools().any(|(tool, _)| tool.name == change.name) {
                let object = ObjectId::new(plan.kind(), plan.key.clone());
                let message = format!("the server has no tool {:?}: the override has no effect", change.name);
                problems.push(Problem::warning(
                    Reason::ToolNotFound,
                    object,
                    format!("spec.tools.overrides[{index}].name"),
                    message,
                ));
            }
        }
    }
    problems
}

/// Returns the indexes of the routes whose calls are never sent, because a fixed value of their override does not fit the
/// schema that the server lists. `check` is that of [`misfits`].
pub(super) fn unsendable<'a>(
    linked: &Linked,
    routes: &Routes,
    check: impl Fn(&Route) -> Option<&'a Arguments>,
) -> BTreeSet<usize> {
    let is_unsendable = |route: &&Arc<Route>| {
        let overrides = &linked.upstreams[route.upstream].target.plan.overrides;
        let change = route.change.and_then(|index| overrides.get(index));
        change.is_some_and(|change| unfit_values(check(route), change).next().is_some())
    };
    routes.all().iter().filter(is_unsendable).map(|route| route.index).collect()
}

/// Returns the Problems of changed arguments that do not fit the schema that the server lists. `check` returns the
/// check of what is sent to the tool of a route.
pub(super) fn misfits<'a>(
    linked: &Linked,
    routes: &Routes,
    check: impl Fn(&Route) -> Option<&'a Arguments>,
) -> Vec<Problem> {
    let of_one = |route: &Arc<Route>| {
        let plan = &linked.upstreams[route.upstream].target.plan;
        let Some((index, change)) = route.change.and_then(|index| Some((index, plan.overrides.get(index)?))) else {
            return Vec::new();
        };
        let object = ObjectId::new(plan.kind(), plan.key.clone());
        let field = |place: usize| format!("spec.tools.overrides[{index}].arguments[{place}]");
        let unfit: Vec<_> = unfit_values(check(route), change).collect();
        let errors = unfit.iter().map(|place| {
            let message = "the value does not fit the server's input schema, or that allows no such argument: no call of the \
                           tool is sent, so clients do not see it";
            Problem::error(Reason::InvalidOverride, object.clone(), format!("{}.value", field(*place)), message)
        });
        let others = faults(route.listed_schema.as_deref(), change).into_iter();
        let warnings = others
            .filter(|(place, _)| !unfit.contains(place))
            .map(|(place, message)| Problem::warning(Reason::InvalidOverride, object.clone(), field(place), message));
        errors.chain(warnings).collect::<Vec<_>>()
    };
    routes.all().iter().flat_map(of_one).collect()
}

/// Returns the places of the arguments whose fixed values do not fit the tool's schema.
fn unfit_values(check: Option<&Arguments>, change: &ToolOverride) -> impl Iterator<Item = usize> {
    let fits = move |argument: &ArgumentOverride| {
        let (Some(check), Some(value)) = (check, &argument.value) else { return true };
        check.fits(&argument.name, value)
    };
    change.arguments.iter().enumerate().filter(move |(_, argument)| !fits(argument)).map(|(place, _)| place)
}
