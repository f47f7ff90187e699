//! Several buckets at once.

use std::thread;

use super::{super::Request, *};

fn tables() -> (Table, Arc<ScopeSpec>, Arc<ScopeSpec>) {
    let (table, user) = table_of(1 << 14, true, Quota::per_hour(100));
    let all = table.scopes().get_or_add(&DigestKey::PUBLIC, "all", Quota::per_hour(1_000));
    (table, user, all)
}

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn request(spec: &ScopeSpec, key: u64, cost: u64) -> Request {
    Request { rule: spec.rule(), digest: digest(spec, key), cost }
}

fn remaining(table: &Table, spec: &ScopeSpec, key: u64) -> u64 {
    table.peek(&spec.rule(), digest(spec, key), 1, NOW).remaining
}

#[test]
fn refused_by_the_second_the_first_is_not_charged() {
    let (table, user, all) = tables();
    let both = |cost| table.decide_all(&[request(&all, 0, cost), request(&user, 7, cost)], NOW).expect("two requests");
    let passed = both(60);
    assert!(passed.allowed);
    assert_eq!((passed.policy, passed.remaining), ("default", 40), "the tightest answers");
    let refused = both(60);
    assert!(!refused.allowed);
    assert_eq!((refused.policy, refused.remaining), ("default", 40));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(20 * 36)));
    assert_eq!((remaining(&table, &all, 0), remaining(&table, &user, 7)), (940, 40));
    let mut told = Vec::new();
    table.drain_dirty(NOW, &mut told);
    assert_eq!(told.iter().map(|unsent| unsent.permits).sum::<u64>(), 120);
}

#[test]
fn of_two_that_refuse_the_longest_wait_answers_and_what_never_passes_waits_longest() {
    let (table, user, all) = tables();
    assert!(table.decide_all(&[request(&all, 0, 1_000), request(&user, 7, 100)], NOW).is_some_and(|d| d.allowed));
    // Per permit a user waits ten times as long.
    let refused = table.decide_all(&[request(&all, 0, 5), request(&user, 7, 5)], NOW).expect("two requests");
    assert_eq!((refused.policy, refused.retry_after), ("default", Some(Duration::from_secs(5 * 36))));
    let refused = table.decide_all(&[request(&user, 7, 5), request(&all, 0, 1_001)], NOW).expect("two requests");
    assert_eq!(refused.policy, "all");
    assert!(refused.is_impossible());
}

#[test]
fn a_bucket_that_is_there_twice_has_to_have_both() {
    let (table, user, _) = tables();
    let twice =
        |cost| table.decide_all(&[request(&user, 7, cost), request(&user, 7, cost)], NOW).expect("two requests");
    assert!(!twice(51).allowed);
    assert_eq!(remaining(&table, &user, 7), 100);
    assert_eq!(twice(50).remaining, 0);
    assert_eq!(table.stats().keys, 1);
}

#[test]
fn no_requests_have_no_answer() {
    let (table, _, _) = tables();
    assert_eq!(table.decide_all(&[], NOW), None);
}

#[test]
fn many_threads_charge_all_or_nothing_while_the_table_grows() {
    const KEYS: u64 = 3_000;
    let (table, user, all) = tables();
    // 100 users a group of which some thousand requests pass, and 100 requests each.
    let passed: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker: u64| {
                let (table, user, all) = (&table, &user, &all);
                scope.spawn(move || {
                    let mut dice = Dice(worker);
                    let mut passed = 0;
                    for _ in 0..40_000 {
                        let key = dice.roll() % KEYS;
                        // In an order by chance.
                        let mut requests =
                            [request(user, key, 3), request(all, key % 30, 3), request(user, key / 2, 1)];
                        let turn = dice.roll() % 3;
                        requests.rotate_left(turn as usize);
                        passed += u64::from(table.decide_all(&requests, NOW).is_some_and(|decision| decision.allowed));
                    }
                    passed
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker that passes")).sum()
    });
    let charged: u64 = (0..30).map(|key| 1_000 - remaining(&table, &all, key)).sum();
    assert_eq!(charged, 3 * passed);
    let charged: u64 = (0..KEYS).map(|key| 100 - remaining(&table, &user, key)).sum();
    assert_eq!(charged, 4 * passed);
}
