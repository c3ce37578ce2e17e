//! What a round of planning does.

use super::*;

#[test]
fn only_a_leader_that_sees_everything_writes() {
    for (led, changed) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(step(false, led, changed, || panic!("it tells what it does not see")), Step::StandBy);
        assert_eq!(step(true, led, changed, || true), Step::Hold);
    }
    assert_eq!(step(true, true, false, || false), Step::Apply);
    assert_eq!(step(true, true, true, || false), Step::Compile);
    // A new leader compiles again, because the previous leader may have stored something newer.
    assert_eq!(step(true, false, false, || false), Step::Compile);
}
