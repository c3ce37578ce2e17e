//! The one binary.

use std::env;

fn main() {
    // Before any thread starts: the sandbox binds the thread that asks for it, and hands descriptors on by number.
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "sandbox") {
        hawsepipe::node::sandbox_main(arguments);
    }
}
