//! Worlds hold, repeat exactly, and fail when a saboteur falsifies replies.

use sim::{Kind, Plan, Saboteur, run};

#[test]
fn fifty_worlds_hold() {
    for seed in 0..50 {
        if let Err(violation) = run(&Plan::new(seed), None, false) {
            panic!("{violation}\ncargo xtask sim --seed {seed}");
        }
    }
}

#[test]
fn clients_do_not_notice_that_they_are_handed_over() {
    let mut handed_over = 0;
    for seed in 2000..2060 {
        match run(&Plan::new(seed).handing_over(), None, false) {
            Ok(report) => handed_over += report.handed_over,
            Err(violation) => panic!("{violation}\ncargo xtask sim --seed {seed}, with clients handed over"),
        }
    }
    assert!(handed_over > 1000, "{handed_over} clients were handed over");
}

#[test]
fn worlds_in_which_sentinels_decide_hold() {
    let worlds = (1000..).map(Plan::new).filter(|plan| plan.kind() == Kind::Sentinel);
    let mut successors = 0;
    for plan in worlds.take(40) {
        match run(&plan, None, false) {
            Ok(report) => successors += report.successors,
            Err(violation) => panic!("{violation}\ncargo xtask sim --seed {}", plan.seed),
        }
    }
    assert!(successors > 10, "{successors} primaries were replaced");
}

#[test]
fn a_seed_names_one_world() {
    for seed in [3, 11, 20] {
        let (one, other) = (run(&Plan::new(seed), None, false), run(&Plan::new(seed), None, false));
        assert_eq!(one, other);
        assert!(one.expect("holds").fingerprint != 0);
    }
}

#[test]
fn without_faults_one_value_in_a_hundred_is_not_judged_at_most() {
    // Values of favourite keys are judged by their writers, which this test does not count.
    let is_calm = |plan: &Plan| plan.faults.is_empty() && plan.drain_at.is_none() && !plan.has_favourites;
    let calm = (0..100).map(Plan::new).filter(is_calm);
    let reports: Vec<_> = calm.take(10).map(|plan| run(&plan, None, false).expect("holds")).collect();
    let sum = |count: fn(&sim::Report) -> u64| reports.iter().map(count).sum::<u64>();
    // Clients that vanish or read late leave some requests open; a small world may have only such.
    assert!(sum(|one| one.unjudged) < sum(|one| one.judged) / 100, "{reports:?}");
    // Clients that subscribe or cache send fewer requests that the model can judge, and are judged by other rules.
    assert!(
        sum(|one| one.judged + one.messages + one.kept) > sum(|one| one.tally.replies) / 4,
        "{reports:?}"
    );
}

/// Number of worlds in which the checker finds `saboteur`.
fn found(saboteur: Saboteur) -> usize {
    (0..30).filter(|&seed| run(&Plan::new(seed), Some(saboteur), false).is_err()).count()
}

#[test]
fn the_checker_notices_replies_that_change_places() {
    assert!(found(Saboteur::Swap) > 10);
}

#[test]
fn the_checker_notices_a_missing_reply() {
    assert!(found(Saboteur::Drop) > 10);
}

#[test]
fn the_checker_notices_a_reply_that_comes_twice() {
    assert!(found(Saboteur::Duplicate) > 10);
}

#[test]
fn the_checker_notices_a_request_that_runs_twice() {
    assert!(found(Saboteur::RunTwice) > 10);
}

#[test]
fn the_checker_notices_a_wrong_byte_in_a_value() {
    assert!(found(Saboteur::Corrupt) > 10);
}

#[test]
fn the_checker_notices_a_node_with_old_answers() {
    assert!(found(Saboteur::AnswerOlder) > 10);
}

#[test]
fn the_checker_notices_a_node_that_loses_writes() {
    assert!(found(Saboteur::Forget) > 10);
}
