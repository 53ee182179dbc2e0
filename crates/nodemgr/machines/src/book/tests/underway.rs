//! What takes long and gets on is asked again as often as it takes.

use super::*;

fn said(class: FailureClass) -> CallFailure {
    CallFailure {
        operation: "make".to_owned(),
        class,
        text: "its image is being pulled".to_owned(),
        elsewhere: false,
    }
}

/// An order, and how its call is answered every time. Tells what happened meanwhile.
fn asked_often(rig: &mut Rig, id: &MachineId, times: u32, class: FailureClass) -> Vec<Happened> {
    let mut happened = Vec::new();
    for _ in 0..times {
        for call in std::mem::take(&mut rig.pending) {
            let answered = match &call {
                Call::Provision(..) => Answered::Provisioned(id.clone(), Err(said(class))),
                call => rig.execute(call, Outcome::Done),
            };
            answered.apply(&mut rig.book, rig.clock.now());
        }
        rig.clock.advance(settings().retry_longest);
        rig.book.tick(rig.clock.now());
        happened.extend(rig.book.turn.events.iter().map(|event| event.what.clone()));
        rig.carry_out();
    }
    happened
}

#[test]
fn an_order_that_gets_on_is_not_given_up_however_long_it_takes() {
    let mut rig = Rig::new();
    let id = rig.book.order(order(), None, rig.now()).unwrap();
    rig.carry_out();
    let often = 20 * settings().attempts;
    let happened = asked_often(&mut rig, &id, often, FailureClass::Underway);
    assert_eq!(happened, [], "nothing has failed");
    assert_eq!(rig.book.record(&id).unwrap().phase, Phase::Ordered);
    rig.answer_all();
    assert_eq!(rig.book.record(&id).unwrap().state(), State::Running);
}

#[test]
fn what_failed_before_it_got_on_still_counts() {
    let mut rig = Rig::new();
    let id = rig.book.order(order(), None, rig.now()).unwrap();
    rig.carry_out();
    let attempts = settings().attempts;
    asked_often(&mut rig, &id, attempts - 1, FailureClass::Retryable);
    asked_often(&mut rig, &id, attempts, FailureClass::Underway);
    assert_eq!(rig.book.record(&id).unwrap().phase, Phase::Ordered);
    asked_often(&mut rig, &id, 1, FailureClass::Retryable);
    let end = rig.book.record(&id).unwrap().end();
    assert_eq!(end, Some(Reason::NotMade));
}
