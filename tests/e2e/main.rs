//! The charts on a node: installed, edited, upgraded, evicted, rolled back and uninstalled, while a client calls tools, of which
//! no call may fail. `make e2e` starts the node and runs this.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod commands;
mod conformance;
mod editing;
mod image;
mod install;
mod pipeline;
mod replacing;
mod sandbox;
mod stdio;
mod uninstall;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// What is done, in this order: each step finds what the ones before it made.
const STEPS: [(&str, fn()); 20] = [
    ("the image", image::is_small_and_says_who_it_is),
    ("install the charts; the first call", install::from_nothing_to_the_first_call),
    ("what the containers are allowed", image::containers_are_confined),
    ("how long a start takes", image::starts),
    ("what confines plugins confines them in a pod", sandbox::a_plugin_is_confined),
    ("a pipeline is a tool, and its calls pass the chains", pipeline::is_a_tool),
    ("servers on stdio in images without a shell", stdio::images_without_a_shell),
    ("servers on stdio that are killed, and that end", stdio::processes_that_end),
    ("the conformance suite through two pods", conformance::through_two_pods),
    ("ten edits of other objects", editing::other_objects),
    ("a header from a Secret that no pod has", editing::a_secret_header),
    ("a store, and calls that must be stored", editing::a_store),
    ("an older revision is pinned, and then no more", editing::a_pin),
    ("another template of the gateway's pods", replacing::a_new_template),
    ("another image of operator and gateways", replacing::a_new_image),
    ("each pod of the gateway is evicted", replacing::evictions),
    ("the operator's pods are replaced", replacing::the_operator),
    ("20 restarts of a pod of the gateway", replacing::restarts),
    ("helm rollback", replacing::rollback),
    ("helm uninstall; the gateways are deleted", uninstall::leaves_what_users_made),
];

fn main() -> ExitCode {
    for (name, step) in STEPS {
        println!("### {name}");
        let started = Instant::now();
        if catch_unwind(step).is_err() {
            commands::tell_what_is_there();
            println!("### {name}: FAILED after {:.1} s", started.elapsed().as_secs_f64());
            return ExitCode::FAILURE;
        }
        println!("### {name}: {:.1} s", started.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}
