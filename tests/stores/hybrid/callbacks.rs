//! What users are told, and that what they do then breaks nothing.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use peerlimit::{
    Limiter, Quota, RateLimiter,
    stores::hybrid::{Hybrid, State},
};
use tokio::time::sleep;

use super::scripted::{AWAY, Mode, Scripted, WELL, clock, pair};

const QUOTA: Quota = Quota::per_hour(1_000);

/// Opens, fails to close, and closes.
async fn there_and_back(hybrid: &Hybrid<Scripted, Limiter>, store: &Scripted) {
    for (mode, calls) in [(AWAY, 5), (Mode::Hangs, 1), (WELL, 3)] {
        store.set(mode);
        for _ in 0..calls {
            assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
        }
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(hybrid.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn changes_and_failures_are_told_in_their_order() {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (changes, failures) = (Arc::clone(&told), Arc::clone(&told));
    let hybrid = Hybrid::builder(store.clone(), local)
        .clock(clock)
        .on_state_change(move |from, to| changes.lock().unwrap().push(format!("{from:?} -> {to:?}")))
        .on_error(move |side, error| failures.lock().unwrap().push(format!("{side:?}: {error}")))
        .build()
        .unwrap();
    there_and_back(&hybrid, &store).await;
    let away = "Primary: the store is away";
    let expected = [
        away,
        away,
        away,
        away,
        away,
        "Closed -> Open",
        "Open -> HalfOpen",
        "Primary: no answer within 50ms",
        "HalfOpen -> Open",
        "Open -> HalfOpen",
        "HalfOpen -> Closed",
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_changes_nothing() {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let called = Arc::new(AtomicUsize::new(0));
    let (changes, failures) = (Arc::clone(&called), Arc::clone(&called));
    let hybrid = Hybrid::builder(store.clone(), local)
        .clock(clock)
        .on_state_change(move |_, _| panic!("change {}", changes.fetch_add(1, Relaxed)))
        .on_error(move |_, _| panic!("failure {}", failures.fetch_add(1, Relaxed)))
        .build()
        .unwrap();
    there_and_back(&hybrid, &store).await;
    assert_eq!(called.load(Relaxed), 11);
    assert_eq!(hybrid.decide(b"user", 1).await.unwrap().policy, "store");
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_use_the_hybrid_that_it_is_told_of() {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let itself = Arc::new(OnceLock::<Hybrid<Scripted, Limiter>>::new());
    let (inner, seen) = (Arc::clone(&itself), Arc::new(Mutex::new(Vec::new())));
    let states = Arc::clone(&seen);
    let hybrid = Hybrid::builder(store.clone(), local)
        .clock(clock)
        .on_state_change(move |_, to| {
            let hybrid = inner.get().unwrap();
            // A probe that is dropped.
            drop(hybrid.decide(b"inner", 1));
            states.lock().unwrap().push((to, hybrid.state()));
        })
        .build()
        .unwrap();
    itself.set(hybrid.clone()).unwrap();
    there_and_back(&hybrid, &store).await;
    assert_eq!(seen.lock().unwrap().len(), 5);
    assert!(seen.lock().unwrap().iter().all(|(to, state)| to == state));
}

#[tokio::test(start_paused = true)]
async fn figures_go_to_the_metrics_facade() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    there_and_back(&hybrid, &store).await;
    store.set(AWAY);
    for _ in 0..5 {
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    let mut figures: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(gauge) => gauge.into_inner(),
                DebugValue::Histogram(_) => f64::NAN,
            };
            format!("{} {} {value}", key.key().name(), labels.join(","))
        })
        .collect();
    figures.sort();
    assert_eq!(
        figures,
        [
            "peerlimit_failover_state policy=store 2",
            "peerlimit_failover_transitions_total policy=store,to=closed 1",
            "peerlimit_failover_transitions_total policy=store,to=half_open 2",
            "peerlimit_failover_transitions_total policy=store,to=open 3",
            "peerlimit_store_errors_total policy=store,side=primary,kind=error 10",
            "peerlimit_store_errors_total policy=store,side=primary,kind=timeout 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_decision_says_who_made_it() {
    let clock = clock();
    let (store, _) = pair(QUOTA, &clock);
    let local = Limiter::local_with_clock(Quota::per_hour(7), clock.clone()).scope("meanwhile", Quota::per_hour(7));
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    let decision = hybrid.decide(b"user", 1).await.unwrap();
    assert_eq!((decision.policy, decision.limit, hybrid.policy().name), ("store", 1_000, "store"));
    store.set(AWAY);
    let decision = hybrid.decide(b"user", 1).await.unwrap();
    assert_eq!((decision.policy, decision.limit, hybrid.policy().name), ("meanwhile", 7, "store"));
    for _ in 0..4 {
        assert!(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    assert_eq!((hybrid.policy().name, hybrid.policy().quota), ("meanwhile", Quota::per_hour(7)));
}
