//! The smallest use in a service: `cargo run --example embedded`.

use std::error::Error;

use peerlimit::{Limiter, Quota, StaticDiscoverer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A service would bind the port that its peers list, 0.0.0.0:7946 say; port 0 lets this example run anywhere.
    let limiter = Limiter::builder(Quota::per_second(100).burst(50))
        .bind("127.0.0.1:0".parse()?)
        .discover(StaticDiscoverer::new(["127.0.0.1:7946"]))
        .start()
        .await?;
    // Take traffic when this resolves: the node then enforces what the cluster knows.
    limiter.ready().await;

    let passed = (0..60).filter(|_| limiter.allow("user:123")).count();
    println!("user:123 asked 60 times at once, {passed} passed");

    // Another kind of limit on the same node. The key is the same, the bucket is not.
    let login = limiter.scope("login", Quota::per_minute(5));
    for attempt in 1..=6 {
        let decision = login.check("user:123");
        match decision.retry_after {
            None => println!("login {attempt} passed, {} left", decision.remaining),
            Some(wait) => println!("login {attempt} refused, again in {:.1} s", wait.as_secs_f64()),
        }
    }

    // Tells the peers what was admitted last, and says good-bye.
    limiter.close().await;
    Ok(())
}
