//! Follows the file of secrets, which Kubernetes replaces when the Secret changes.

use std::{path::PathBuf, time::Duration};

use peerlimit::{Limiter, Secrets};
use tokio::{fs, time::sleep};

/// The kubelet takes a minute or more to bring a change; this adds little.
const PERIOD: Duration = Duration::from_secs(1);

/// Hands what the file holds to the limiter, now and whenever it has been replaced, for ever. A file that is gone or wrong is
/// logged and changes nothing: the secrets at hand still work.
pub(crate) async fn follow(path: PathBuf, limiter: Limiter) {
    let mut known = None;
    loop {
        // Before it is read: what is replaced meanwhile differs at the next look. A volume's file is a link into a folder that
        // is new with each change, and so is its time.
        let written = fs::metadata(&path).await.and_then(|file| file.modified()).ok();
        if written != known {
            known = written;
            match Secrets::from_file(&path) {
                Ok(secrets) => {
                    let count = secrets.len();
                    limiter.set_secrets(secrets).await;
                    tracing::info!(count, "uses the key ring");
                }
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, path = %path.display(), "no key ring; goes on with the former one");
                }
            }
        }
        sleep(PERIOD).await;
    }
}
