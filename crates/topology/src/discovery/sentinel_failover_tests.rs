//! Failovers by sentinels, step by step: which node gets requests, and when. Discovered sentinels.

use super::sentinel_testing::{
    Said, address, claim, discovery, primaries, primary, replica, roles_asked, said, seeded, sentinel, world,
};
use super::testing::{World, array};
use super::{News, Wish};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use stdx::prng::Prng;

const MOMENT: Duration = Duration::from_millis(250);

fn choose(said: &Said, heir: Option<&'static str>) {
    said.borrow_mut().heir = heir;
}

/// The sentinel at `by` fails `one` over, has chosen `heir`, and reports it.
fn announce(world: &mut World<'_>, (by, said): (&str, &Said), heir: &'static str) {
    choose(said, Some(heir));
    let (host, port) = heir.rsplit_once(':').expect("host:port");
    let text = format!("slave {heir} {host} {port} @ one a 1");
    world.say(by, &array(&["pmessage", "*", "+selected-slave", &text]));
}

/// The primary of `one` in all views, one after the other.
fn failover(world: &World<'_>) -> Vec<String> {
    let label = |view: &super::View| view.shards[0].primary.as_ref().map(crate::NodeSpec::label);
    let mut all: Vec<String> =
        world.views.iter().map(|view| label(view).unwrap_or("nobody".to_owned())).collect();
    all.dedup();
    all
}

/// A live primary is being replaced by `c:1`, by the second sentinel's report, and `c:1` has been promoted.
fn promoted<'a>() -> (World<'a>, [Said; 3]) {
    let (mut world, all) = world();
    announce(&mut world, ("s:2", &all[1]), "c:1");
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "a:1", "c:1 is none yet");
    world.put("c:1", primary());
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "c:1");
    (world, all)
}

#[test]
fn promoted_replica_gets_requests_before_sentinels_announce_it() {
    let (mut world, all) = world();
    world.kill("a:1");
    world.wish(Wish::Down(address("a:1")));
    world.run_for(Duration::from_secs(1));
    choose(&all[1], Some("c:1"));
    world.run_for(Duration::from_secs(1));
    assert_eq!(primaries(&world)[0], "a:1", "nobody else yet");
    let asked = roles_asked(&world, "c:1");
    assert!((80..=200).contains(&asked), "{asked} times in a second");
    world.put("c:1", primary());
    world.run_for(Duration::from_millis(12));
    assert_eq!(primaries(&world), ["c:1", "b:1"]);
    // The heir stays, without a gap, while one sentinel after the other learns of it.
    for said in [1, 0, 2].map(|index: usize| &all[index]) {
        choose(said, None);
        claim(said, "c:1", 1);
        world.run_for(Duration::from_secs(1));
    }
    world.run_for(Duration::from_secs(30));
    assert_eq!(failover(&world), ["a:1", "c:1"]);
    assert!(!world.news.iter().any(|news| matches!(news, News::NotPrimary { .. })), "{:?}", world.news);
}

#[test]
fn a_replica_that_does_not_obey_is_not_asked_so_often_for_long() {
    let (mut world, all) = world();
    choose(&all[1], Some("c:1"));
    world.wish(Wish::Look);
    world.run_for(Duration::from_secs(6));
    let before = roles_asked(&world, "c:1");
    world.run_for(Duration::from_secs(1));
    let asked = roles_asked(&world, "c:1") - before;
    assert!((8..=20).contains(&asked), "{asked} times in a second");
}

#[test]
fn successor_is_named_at_once_and_confirmed_by_role() {
    // The failover ended before its choice was known: an ordered failover may take a tenth of a second.
    let (mut world, all) = world();
    world.put("c:1", primary());
    claim(&all[1], "c:1", 1);
    world.say("s:2", &array(&["pmessage", "*", "+switch-master", "one a 1 c 1"]));
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1"]);
    // A silent node is named, too, so that requests wait for it, and not for long.
    world.put("d:1", |_: &[String]| None);
    claim(&all[1], "d:1", 2);
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "d:1"]);
    world.run_for(Duration::from_secs(1));
    assert_eq!(failover(&world), ["a:1", "c:1", "d:1", "nobody"]);
    // Without a former primary, no request waits.
    claim(&all[1], "e:1", 3);
    world.put("e:1", replica());
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "d:1", "nobody"]);
    world.put("e:1", primary());
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "e:1");
}

#[test]
fn replica_promoted_by_mistake_gets_nothing() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    world.say(
        "s:2",
        &array(&["pmessage", "*", "-role-change", "slave c:1 c 1 @ one a 1 new reported role is master"]),
    );
    world.run_for(Duration::from_secs(20));
    world.kill("a:1");
    world.wish(Wish::Down(address("a:1")));
    world.run_for(Duration::from_secs(20));
    // Another one is chosen.
    choose(&all[1], Some("d:1"));
    world.put("d:1", replica());
    world.run_for(Duration::from_secs(5));
    assert_eq!((failover(&world), roles_asked(&world, "c:1")), (vec!["a:1".to_owned()], 0));
    world.put("d:1", primary());
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "d:1");
}

#[test]
fn failover_of_a_wrong_node_or_without_agreement_is_ignored() {
    let (mut world, all) = world();
    all.iter().for_each(|said| claim(said, "a:1", 5));
    world.run_for(Duration::from_secs(15));
    world.put("c:1", primary());
    world.put("d:1", primary());
    // This sentinel was isolated, and does not know of the failovers since.
    claim(&all[1], "a:1", 4);
    choose(&all[1], Some("c:1"));
    world.wish(Wish::Look);
    world.run_for(Duration::from_secs(5));
    assert_eq!(primaries(&world)[0], "a:1");
    // Two were elected one after the other: the order of their choices is unknown.
    claim(&all[1], "a:1", 5);
    choose(&all[2], Some("d:1"));
    world.wish(Wish::Look);
    world.run_for(Duration::from_secs(5));
    assert_eq!(failover(&world), ["a:1"]);
    choose(&all[1], None);
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "d:1");
}

#[test]
fn old_primary_gets_nothing_while_its_sentinel_is_silent() {
    let (mut world, all) = promoted();
    world.kill("s:2");
    assert_eq!(primaries(&world)[0], "nobody");
    world.run_for(Duration::from_secs(9));
    assert_eq!(primaries(&world)[0], "nobody", "a:1 says that it is a primary, and most sentinels do");
    claim(&all[1], "c:1", 1);
    choose(&all[1], None);
    world.put("s:2", sentinel(&all[1]));
    world.run_for(Duration::from_millis(1100));
    assert_eq!(failover(&world), ["a:1", "c:1", "nobody", "c:1"]);
    // The sentinel died, and no other knows of its failover: the others keep the old primary, and so does discovery.
    let (mut world, _) = promoted();
    world.kill("s:2");
    world.run_for(Duration::from_secs(11));
    assert_eq!(failover(&world), ["a:1", "c:1", "nobody", "a:1"]);
}

#[test]
fn the_sentinel_was_only_cut_off_for_a_moment_and_goes_on() {
    let (mut world, all) = promoted();
    world.kill("s:2");
    world.put("s:2", sentinel(&all[1]));
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "nobody", "c:1"]);
}

#[test]
fn a_failover_that_was_given_up_leaves_the_old_primary_in_place() {
    let (mut world, all) = promoted();
    choose(&all[1], None);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "a:1"], "as all sentinels and a:1 itself say");
}

#[test]
fn promoted_replica_stays_primary_despite_a_rival_choice() {
    let (mut world, all) = promoted();
    world.put("d:1", replica());
    announce(&mut world, ("s:3", &all[2]), "d:1");
    world.run_for(Duration::from_secs(2));
    assert_eq!(failover(&world), ["a:1", "c:1"], "what c:1 has acknowledged a:1 does not have");
    claim(&all[1], "c:1", 1);
    choose(&all[1], None);
    world.run_for(MOMENT);
    world.put("d:1", primary());
    claim(&all[2], "d:1", 2);
    choose(&all[2], None);
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "d:1"]);
}

#[test]
fn second_choice_is_asked_before_the_old_primary_is_used() {
    let (mut world, all) = promoted();
    world.put("d:1", primary());
    announce(&mut world, ("s:3", &all[2]), "d:1");
    world.run_for(Duration::from_secs(1));
    choose(&all[1], None);
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "d:1"]);
}

#[test]
fn a_newer_failover_goes_before_a_doubtful_heir() {
    let (mut world, all) = promoted();
    world.kill("s:2");
    world.run_for(Duration::from_secs(1));
    assert_eq!(primaries(&world)[0], "nobody", "the sentinel that has chosen c:1 is gone");
    world.put("d:1", primary());
    announce(&mut world, ("s:1", &all[0]), "d:1");
    world.run_for(MOMENT);
    assert_eq!(primaries(&world)[0], "d:1", "s:1 carried out no failover before");
}

#[test]
fn an_heir_that_is_a_replica_again_gets_nothing() {
    let (mut world, _) = promoted();
    world.put("a:1", replica());
    world.put("c:1", replica());
    world.run_for(Duration::from_secs(1));
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    assert_eq!(failover(&world), ["a:1", "c:1", "nobody"]);
}

#[test]
fn uninformed_majority_does_not_revert_a_failover() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    claim(&all[0], "c:1", 1);
    world.wish(Wish::Look);
    world.run_for(MOMENT);
    world.kill("s:1");
    world.run_for(Duration::from_secs(9));
    assert_eq!(primaries(&world)[0], "c:1", "two of three say a:1, as they did before");
}

/// One configured sentinel, and two that it reports.
fn found<'a>() -> (World<'a>, [Said; 3]) {
    let mut world = World::new(discovery(&["s:1"], &["one"]));
    let all = [(); 3].map(|()| said(&[("one", "a:1", 0)]));
    let fellows = [("i1", "s:1"), ("i2", "s:2"), ("i3", "s:3")];
    for (said, (id, at)) in all.iter().zip(fellows) {
        said.borrow_mut().id = Some(id);
        said.borrow_mut().fellows = fellows.into_iter().filter(|fellow| fellow.0 != id).collect();
        world.put(at, sentinel(said));
    }
    world.put("a:1", primary());
    world.put("c:1", primary());
    world.run_for(Duration::from_secs(1));
    (world, all)
}

fn asked(world: &World<'_>, at: &str) -> usize {
    world.connected.iter().filter(|(address, _)| address == at).count()
}

#[test]
fn sentinels_that_were_not_named_are_found_and_heard() {
    let (mut world, all) = found();
    assert_eq!(["s:1", "s:2", "s:3"].map(|at| asked(&world, at)), [2, 2, 2]);
    world.kill("s:1");
    claim(&all[2], "c:1", 1);
    world.say("s:3", &array(&["pmessage", "*", "+switch-master", "one a 1 c 1"]));
    world.run_for(MOMENT);
    assert_eq!(primaries(&world), ["c:1"]);
}

#[test]
fn impostor_at_a_discovered_sentinels_address_is_ignored() {
    let (mut world, all) = found();
    world.kill("s:3");
    (all[2].borrow_mut().id, all[2].borrow_mut().fellows) = (Some("x3"), vec![("x4", "s:4")]);
    claim(&all[2], "c:1", 99);
    world.put("s:3", sentinel(&all[2]));
    world.run_for(Duration::from_secs(30));
    assert_eq!((primaries(&world), asked(&world, "s:4")), (vec!["a:1".to_owned()], 0));
    let is_said =
        |news: &&News| matches!(news, News::NoAnswer { reason, .. } if reason.contains("another sentinel"));
    assert_eq!(world.news.iter().filter(is_said).count(), 1);
}

#[test]
fn unmentioned_discovered_sentinel_is_forgotten() {
    let (mut world, all) = found();
    all[0].borrow_mut().fellows.pop();
    world.run_for(Duration::from_secs(15));
    let before = asked(&world, "s:3");
    world.kill("s:3");
    world.run_for(Duration::from_secs(30));
    assert_eq!(asked(&world, "s:3"), before);
    // Two found sentinels report an older state than the configured one.
    let (mut world, all) = found();
    claim(&all[0], "c:1", 7);
    world.run_for(Duration::from_secs(30));
    world.kill("s:1");
    world.run_for(Duration::from_secs(60));
    assert_eq!(primaries(&world), ["c:1"]);
}

#[test]
fn a_sentinel_that_was_named_twice_has_one_vote() {
    let mut world = World::new(discovery(&["s:1", "name:1", "s:2", "s:3"], &["one"]));
    let twice = said(&[("one", "x:1", 3)]);
    twice.borrow_mut().id = Some("i1");
    let others = ["i2", "i3"].map(|id| {
        let said = said(&[("one", "a:1", 3)]);
        said.borrow_mut().id = Some(id);
        said
    });
    for (at, said) in [("s:1", &twice), ("name:1", &twice), ("s:2", &others[0]), ("s:3", &others[1])] {
        world.put(at, sentinel(said));
    }
    world.put("a:1", primary());
    world.put("x:1", primary());
    world.run_for(Duration::from_secs(30));
    assert_eq!(primaries(&world), ["a:1"]);
}

const NODES: [&str; 3] = ["a:1", "c:1", "d:1"];
const SENTINELS: [&str; 3] = ["s:1", "s:2", "s:3"];

/// Three nodes of one name, and their true state. Sentinels act as Redis's do, at moments that the seed chooses.
struct Drama<'a> {
    world: World<'a>,
    prng: Prng,
    all: [Said; 3],
    is_up: [bool; 3],
    /// Which nodes say that they are primaries.
    roles: Rc<RefCell<[bool; 3]>>,
    /// Primaries and their epochs, in order.
    reigns: Vec<(usize, u64)>,
    /// The sentinel of a failover, its choice, and whether that node has obeyed.
    failover: Option<(usize, usize, bool)>,
    /// The highest that was seen in a view.
    seen: u64,
    views: usize,
}

impl<'a> Drama<'a> {
    fn new(seed: u64) -> Drama<'a> {
        let world = World::new(seeded(&SENTINELS, &["one"], seed));
        let all = [(); 3].map(|()| said(&[("one", "a:1", 0)]));
        let roles = Rc::new(RefCell::new([true, false, false]));
        let mut drama = Drama {
            world,
            prng: Prng::new(seed),
            all,
            is_up: [true; 3],
            roles,
            reigns: vec![(0, 0)],
            failover: None,
            seen: 0,
            views: 0,
        };
        for index in 0..3 {
            drama.world.put(SENTINELS[index], sentinel(&drama.all[index]));
            let roles = Rc::clone(&drama.roles);
            let (mut primary, mut replica) = (primary(), replica());
            drama.world.put(NODES[index], move |request: &[String]| {
                if roles.borrow()[index] { primary(request) } else { replica(request) }
            });
        }
        drama.pass(Duration::from_secs(1));
        drama
    }

    fn below(&mut self, most: u64) -> usize {
        self.prng.below(most) as usize
    }

    fn primary(&self) -> (usize, u64) {
        *self.reigns.last().expect("there is one")
    }

    /// Time goes by; then every view since must have been right.
    fn pass(&mut self, time: Duration) {
        self.world.run_for(time);
        self.check();
    }

    fn check(&mut self) {
        for view in &self.world.views[self.views..] {
            let Some(node) = &view.shards[0].primary else { continue };
            let node = NODES.iter().position(|at| *at == node.label()).expect("a node of ours");
            let is_heir = matches!(self.failover, Some((_, heir, true)) if heir == node);
            let reign = match self.reigns.iter().rfind(|(other, _)| *other == node) {
                _ if is_heir => 2 * self.primary().1 + 1,
                Some((_, epoch)) => 2 * epoch,
                None => panic!("{node} was never made the primary"),
            };
            assert!(reign >= self.seen, "{node} was the primary before, and gets requests again");
            self.seen = reign;
        }
        self.views = self.world.views.len();
    }

    /// Something happens.
    fn act(&mut self) {
        let (primary, epoch) = self.primary();
        let index = self.below(3);
        match (self.below(9), self.failover) {
            (0 | 1, None) if self.is_up[index] && index != primary => {
                let leader = self.below(3);
                if self.is_up[leader] && self.all[leader].borrow().claims["one"] == (NODES[primary], epoch) {
                    choose(&self.all[leader], Some(NODES[index]));
                    // By mistake it may be a primary already; then there is nothing to obey.
                    self.failover = Some((leader, index, self.roles.borrow()[index]));
                }
            }
            (0..=3, Some((leader, heir, false))) => {
                self.roles.borrow_mut()[heir] = true;
                self.failover = Some((leader, heir, true));
            }
            (0..=3, Some((leader, heir, true))) => {
                choose(&self.all[leader], None);
                claim(&self.all[leader], NODES[heir], epoch + 1);
                self.reigns.push((heir, epoch + 1));
                self.failover = None;
            }
            (4, Some((leader, heir, has_obeyed))) => {
                // The sentinel dies, and comes back with its saved state.
                self.world.kill(SENTINELS[leader]);
                choose(&self.all[leader], None);
                self.is_up[leader] = false;
                self.roles.borrow_mut()[heir] &= !has_obeyed;
                self.failover = None;
                self.check();
                self.seen = self.seen.min(2 * epoch);
            }
            (5, None) => claim(&self.all[index], NODES[primary], epoch),
            (6, _) if self.is_up[index] => {
                self.is_up[index] = false;
                self.world.kill(SENTINELS[index]);
            }
            (6 | 7, _) if !self.is_up[index] => {
                self.is_up[index] = true;
                self.world.put(SENTINELS[index], sentinel(&self.all[index]));
            }
            (7, None) if index != primary => {
                // An operator's mistake, or its end; or the demotion of a former primary.
                let role = self.roles.borrow()[index];
                self.roles.borrow_mut()[index] = !role;
            }
            (8, _) => self.world.wish(Wish::Look),
            _ => {}
        }
    }

    /// All sentinels are there and agree: so must we.
    fn settle(&mut self) {
        if self.failover.is_some_and(|(_, _, has_obeyed)| !has_obeyed) {
            self.failover.take().into_iter().for_each(|(leader, ..)| choose(&self.all[leader], None));
        }
        if let Some((leader, heir, _)) = self.failover.take() {
            choose(&self.all[leader], None);
            self.reigns.push((heir, self.primary().1 + 1));
        }
        let (primary, epoch) = self.primary();
        for (at, said) in SENTINELS.into_iter().zip(&self.all) {
            claim(said, NODES[primary], epoch);
            self.world.put(at, sentinel(said));
        }
        *self.roles.borrow_mut() = [0, 1, 2].map(|index| index == primary);
        self.pass(Duration::from_secs(25));
        assert_eq!(primaries(&self.world), [NODES[primary]]);
    }
}

#[test]
fn only_primaries_get_requests_through_random_failovers() {
    for seed in 0..50 {
        let repeat = std::panic::AssertUnwindSafe(|| {
            let mut drama = Drama::new(seed);
            for _ in 0..60 {
                drama.act();
                let ms = drama.below(400) as u64;
                drama.pass(Duration::from_millis(ms));
            }
            drama.settle();
        });
        if let Err(panic) = std::panic::catch_unwind(repeat) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
