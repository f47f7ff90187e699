//! Many at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use peerlimit::Quota;

use super::*;

const TASKS: u64 = 64;

/// The windows that counted those values, and how far they counted in all. `None` where one has a gap.
///
/// Each window counts 1, 2, 3 and so on. So no value is there more often than the one before it, as a hit that was
/// lost, or counted twice, would leave it.
fn windows_of(values: &[u64]) -> Option<(u64, u64)> {
    let most = values.iter().max().copied().unwrap_or(0) as usize;
    let mut seen = vec![0_u64; most + 2];
    values.iter().for_each(|value| seen[*value as usize] += 1);
    let whole = seen[0] == 0 && seen[1..].windows(2).all(|pair| pair[1] <= pair[0]);
    let ended_at = |value: usize| value as u64 * (seen[value] - seen[value + 1]);
    whole.then(|| (seen[1], (1..=most).map(ended_at).sum()))
}

#[test]
fn a_lost_hit_would_be_found() {
    let mut values: Vec<u64> = (1..=500).chain(1..=300).chain(1..=1).collect();
    assert_eq!(windows_of(&values), Some((3, 801)));
    values.remove(499);
    assert_eq!(windows_of(&values), Some((3, 800)), "the last of a window is not missed");
    values.remove(250);
    values.remove(250 + 499);
    assert_eq!(windows_of(&values), None);
    assert_eq!(windows_of(&[1, 2, 2]), None);
    assert_eq!(windows_of(&[0]), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_hits_of_two_clients_on_an_expiring_key_are_all_counted() {
    const HITS: u64 = 100_000;
    let Some(server) = start() else { return };
    // Its own expiry takes it about once a second, and somebody else makes it expire far more often.
    let quota = Quota::per_second(HITS + 1);
    let clients = [limiter("hot", quota, &server), limiter("hot", quota, &server)];
    let done = Arc::new(AtomicBool::new(false));
    let expiring = {
        let (done, addr) = (Arc::clone(&done), server.addr());
        thread::spawn(move || {
            let mut stream = BufReader::new(TcpStream::connect(addr).unwrap());
            let (mut expired, mut answer) = (0, String::new());
            while !done.load(Relaxed) {
                answer.clear();
                stream.get_mut().write_all(b"touch peerlimit:hot:=key -1\r\n").unwrap();
                stream.read_line(&mut answer).unwrap();
                expired += u64::from(answer == "TOUCHED\r\n");
                thread::sleep(Duration::from_millis(3));
            }
            expired
        })
    };
    let begin = Instant::now();
    let tasks: Vec<_> = (0..2 * TASKS)
        .map(|task| {
            let client = clients[task as usize % 2].clone();
            let hits = HITS / (2 * TASKS) + u64::from(task < HITS % (2 * TASKS));
            tokio::spawn(async move {
                let mut values = Vec::new();
                for _ in 0..hits {
                    let decision = client.check("key").await.unwrap();
                    assert!(decision.allowed);
                    values.push(decision.limit - decision.remaining);
                }
                values
            })
        })
        .collect();
    let mut values = Vec::new();
    for task in tasks {
        values.extend(task.await.unwrap());
    }
    let took = begin.elapsed();
    done.store(true, Relaxed);
    let expired = expiring.join().unwrap();
    assert_eq!(values.len() as u64, HITS);
    // All windows together have counted as many as were asked for.
    let (windows, counted) = windows_of(&values).expect("a hit was lost or counted twice");
    assert_eq!(counted, HITS);
    assert!(windows > 10 && windows >= expired / 2, "{windows} windows, expired {expired} times");
    eprintln!("{HITS} hits in {windows} windows, {took:?}: {:.0}/s", HITS as f64 / took.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_requests_exactly_the_limit_passes() {
    let Some(server) = start() else { return };
    let quota = Quota::per_hour(1_000);
    let clients = [limiter("hot", quota, &server), limiter("hot", quota, &server)];
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = clients[task as usize % 2].clone();
            tokio::spawn(async move {
                let mut passed = 0;
                for _ in 0..100 {
                    passed += u64::from(client.allow("key").await.unwrap());
                }
                passed
            })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    assert_eq!(passed, 1_000);
    // And all of them count, those refused too.
    assert_eq!(counter(&server, "peerlimit:hot:=key"), Some(TASKS * 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_give_up_half_way_leave_the_others_in_step() {
    const BAND: u64 = 1_000_000;
    let Some(server) = start() else { return };
    let quota = Quota::new(u32::MAX.into(), Duration::from_secs(7_200)).unwrap();
    let limiter = limiter("hot", quota, &server);
    let dropped = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (limiter, dropped) = (limiter.clone(), Arc::clone(&dropped));
            tokio::spawn(async move {
                let key = format!("user:{task}");
                // By what was used an answer tells whose it is.
                let mut used = (task + 1) * BAND;
                let _state = limiter.charge(&key, used).await.unwrap();
                for round in 0..300 {
                    if (round + task) % 3 == 0 {
                        // It is asked once, and no answer can be there yet.
                        let given_up = tokio::select! {
                            biased;
                            _ = limiter.check(&key) => false,
                            () = std::future::ready(()) => true,
                        };
                        dropped.fetch_add(u64::from(given_up), Relaxed);
                        used += 1;
                        continue;
                    }
                    let decision = limiter.peek(&key).await.unwrap();
                    let now_used = decision.limit - decision.remaining;
                    assert!(now_used >= (task + 1) * BAND && now_used <= used, "{key}: {now_used}, at most {used}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(dropped.load(Relaxed) > 1_000, "only {} were given up", dropped.load(Relaxed));
}
