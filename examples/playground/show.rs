//! The show: one task that owns the fleet, carries out commands, and says ten times a second how things are.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use peerlimit::Quota;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    command::{Command, MOST_LOAD, MOST_NODES, Refused},
    fleet::{Fleet, name},
    load::KEY,
    state::{Happened, NodeState, State},
};

/// Time between two states.
const TICK: Duration = Duration::from_millis(100);
/// States that a page gets that was just opened: as many as its charts show, and the second that rates are taken over.
const HISTORY: usize = 320;
/// Things that happened, which states tell.
const HAPPENED: usize = 24;
/// Commands that wait. Beyond that the page waits.
const COMMANDS: usize = 16;

/// A command, and who waits for its outcome.
type Asked = (Command, oneshot::Sender<Result<(), Refused>>);

/// The way from the page's server to the show.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    commands: mpsc::Sender<Asked>,
    latest: watch::Receiver<Arc<str>>,
    history: Arc<Mutex<VecDeque<Arc<str>>>>,
}

impl Remote {
    /// Carries out a command. `None` if the show is over.
    pub(crate) async fn ask(&self, command: Command) -> Option<Result<(), Refused>> {
        let (sender, answer) = oneshot::channel();
        self.commands.send((command, sender)).await.ok()?;
        answer.await.ok()
    }

    /// The last states, and then each new one; one that is late misses some.
    pub(crate) fn states(&self) -> (Vec<Arc<str>>, watch::Receiver<Arc<str>>) {
        let mut latest = self.latest.clone();
        let history = self.history.lock();
        // What is in the history does not come again.
        latest.mark_unchanged();
        (history.iter().cloned().collect(), latest)
    }
}

#[derive(Debug)]
pub(crate) struct Show {
    fleet: Fleet,
    quota: Quota,
    loss: u8,
    begun: Instant,
    happened: VecDeque<Happened>,
    commands: mpsc::Receiver<Asked>,
    latest: watch::Sender<Arc<str>>,
    history: Arc<Mutex<VecDeque<Arc<str>>>>,
}

impl Show {
    pub(crate) fn new(fleet: Fleet, quota: Quota) -> (Self, Remote) {
        let (commands, asked) = mpsc::channel(COMMANDS);
        let (latest, states) = watch::channel(Arc::from(""));
        let history = Arc::new(Mutex::new(VecDeque::with_capacity(HISTORY)));
        let remote = Remote { commands, latest: states, history: Arc::clone(&history) };
        let (begun, happened) = (Instant::now(), VecDeque::new());
        (Self { fleet, quota, loss: 0, begun, happened, commands: asked, latest, history }, remote)
    }

    /// Runs until `end`, then closes the nodes.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) -> Result<(), serde_json::Error> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::pin!(end);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.publish()?,
                Some((command, answer)) = self.commands.recv() => {
                    let outcome = self.carry_out(command).await;
                    // A page that is closed waits for nothing.
                    let _nobody_waits = answer.send(outcome);
                }
                () = &mut end => break,
            }
        }
        self.fleet.close().await;
        Ok(())
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), Refused> {
        command.check(self.fleet.nodes.len())?;
        match command {
            Command::Load { node, rate } => {
                let chosen = node.map_or(0..self.fleet.nodes.len(), |node| node - 1..node);
                self.fleet.nodes[chosen].iter().for_each(|node| node.traffic.rate.store(rate, Relaxed));
            }
            Command::Loss { percent } => {
                self.loss = percent;
                self.fleet.network.set_loss(percent);
            }
            Command::Cut { on } if on == self.fleet.network.is_cut() => {}
            Command::Cut { on } => {
                self.fleet.network.set_cut(on);
                self.tell(if on { "cut in two" } else { "healed" });
            }
            Command::Alone { on } if on == self.fleet.is_alone() => {}
            Command::Alone { on } => {
                self.fleet.set_alone(on);
                self.tell(if on { "every node alone" } else { "shared again" });
            }
            Command::Kill { node } if self.is_down(node) => return Err(Refused::IsDown(node)),
            Command::Kill { node } => {
                self.fleet.kill(node - 1).await;
                self.tell(&format!("{} killed", name(node - 1)));
            }
            Command::Restart { node } if !self.is_down(node) => return Err(Refused::IsUp(node)),
            Command::Restart { node } => {
                let started = self.fleet.start(node - 1).await;
                self.tell_start(node, "restarted", started.map_err(|error| error.to_string()))?;
            }
            Command::Add {} => {
                // As much as the one before, so that the newcomer shows.
                let rate = self.fleet.nodes.last().map_or(0, |node| node.traffic.rate.load(Relaxed));
                let added = self.fleet.add(1, rate).await;
                self.tell_start(self.fleet.nodes.len(), "added", added.map_err(|error| error.to_string()))?;
            }
        }
        Ok(())
    }

    fn is_down(&self, node: usize) -> bool {
        self.fleet.nodes[node - 1].limiters().is_none()
    }

    fn tell_start(&mut self, node: usize, what: &str, outcome: Result<(), String>) -> Result<(), Refused> {
        outcome.map_err(|error| {
            tracing::error!(error, "a node could not be {what}");
            Refused::CannotStart
        })?;
        self.tell(&format!("{} {what}", name(node - 1)));
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
    }

    fn tell(&mut self, text: &str) {
        if self.happened.len() == HAPPENED {
            self.happened.pop_front();
        }
        self.happened.push_back(Happened { at_ms: self.now_ms(), text: text.to_owned() });
    }

    fn publish(&self) -> Result<(), serde_json::Error> {
        let text: Arc<str> = serde_json::to_string(&self.state())?.into();
        let mut history = self.history.lock();
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(Arc::clone(&text));
        // Under the lock, so that whoever holds it sees both or neither.
        self.latest.send_replace(text);
        Ok(())
    }

    fn state(&self) -> State<'_> {
        let alone = self.fleet.is_alone();
        let nodes = self.fleet.nodes.iter().enumerate();
        State {
            at_ms: self.now_ms(),
            rate: self.quota.count(),
            burst: self.quota.burst_size(),
            alone,
            cut: self.fleet.network.is_cut(),
            loss: self.loss,
            most_nodes: MOST_NODES,
            most_load: MOST_LOAD,
            datagrams: self.fleet.network.datagrams(),
            nodes: nodes.map(|(index, _)| self.node_state(index, alone)).collect(),
            happened: &self.happened,
        }
    }

    fn node_state(&self, index: usize, alone: bool) -> NodeState {
        let node = &self.fleet.nodes[index];
        let limiters = node.limiters();
        // Members are told by their addresses, which are those of relays and stay the same.
        let place = |addr| self.fleet.nodes.iter().position(|other| other.addr == addr);
        let members = limiters.map(|limiters| limiters.shared.members()).unwrap_or_default();
        NodeState {
            node: index + 1,
            name: name(index),
            up: limiters.is_some(),
            ready: limiters.is_some_and(|limiters| limiters.shared.is_ready()),
            side: self.fleet.network.side(index),
            load: node.traffic.rate.load(Relaxed),
            offered: node.traffic.offered.load(Relaxed),
            admitted: node.traffic.admitted.load(Relaxed),
            level: limiters.map(|limiters| limiters.by_rule(alone).peek(KEY).remaining),
            members: NodeState::members(members, place),
        }
    }
}
