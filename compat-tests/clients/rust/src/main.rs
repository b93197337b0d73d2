// The crate zookeeper-client: one feature after the other; see ../../programs.py for what is printed.
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error, EventType, OneshotWatcher};

const WAIT: Duration = Duration::from_secs(30);
type Outcome = Result<(), String>;

struct Story {
    client: Client,
    top: String,
}

fn text<E: Debug>(error: E) -> String {
    format!("{error:?}")
}

fn expect<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Outcome {
    if got == wanted {
        return Ok(());
    }
    Err(format!("{what}: {got:?}, not {wanted:?}"))
}

fn fails<T: Debug>(wanted: Error, result: Result<T, Error>) -> Outcome {
    match result {
        Err(error) => expect("the error", error, wanted),
        Ok(value) => Err(format!("{value:?}, where {wanted:?} was expected")),
    }
}

impl Story {
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.top)
    }

    // What the library makes of the end of the path: the sequence number, if it has one.
    async fn create(&self, path: &str, data: &str, mode: CreateMode) -> Result<String, Error> {
        let options = mode.with_acls(Acls::anyone_all());
        let (_, sequence) = self.client.create(path, data.as_bytes(), &options).await?;
        Ok(format!("{path}{sequence}"))
    }

    async fn plain(&self, name: &str, data: &str) -> Outcome {
        self.create(&self.at(name), data, CreateMode::Persistent).await.map_err(text)?;
        Ok(())
    }

    async fn session(&self) -> Outcome {
        expect("a session", self.client.session_id().0 != 0, true)?;
        self.create(&self.top, "", CreateMode::Persistent).await.map_err(text)?;
        Ok(())
    }

    async fn nodes(&self) -> Outcome {
        self.plain("a", "one").await?;
        fails(Error::NodeExists, self.create(&self.at("a"), "", CreateMode::Persistent).await)?;
        let (data, stat) = self.client.get_data(&self.at("a")).await.map_err(text)?;
        expect("data", data, b"one".to_vec())?;
        expect("length", stat.data_length, 3)?;
        let names = self.client.list_children(&self.top).await.map_err(text)?;
        expect("children", names, vec!["a".to_string()])?;
        fails(Error::NoNode, self.client.get_data(&self.at("nobody")).await)?;
        self.client.delete(&self.at("a"), None).await.map_err(text)?;
        expect("gone", self.client.check_stat(&self.at("a")).await.map_err(text)?.is_none(), true)
    }

    async fn versions(&self) -> Outcome {
        self.plain("v", "0").await?;
        let stat = self.client.set_data(&self.at("v"), b"1", Some(0)).await.map_err(text)?;
        expect("version", stat.version, 1)?;
        fails(Error::BadVersion, self.client.set_data(&self.at("v"), b"2", Some(0)).await)?;
        fails(Error::BadVersion, self.client.delete(&self.at("v"), Some(0)).await)
    }

    async fn sequence(&self) -> Outcome {
        self.plain("s", "").await?;
        for number in 0..3 {
            let made = self.create(&self.at("s/n-"), "", CreateMode::PersistentSequential).await.map_err(text)?;
            expect("path", made, self.at(&format!("s/n-{number:010}")))?;
        }
        Ok(())
    }

    async fn ephemerals(&self) -> Outcome {
        self.create(&self.at("e"), "", CreateMode::Ephemeral).await.map_err(text)?;
        let stat = self.client.check_stat(&self.at("e")).await.map_err(text)?.ok_or("it is not there")?;
        expect("owner", stat.ephemeral_owner, self.client.session_id().0)?;
        fails(Error::NoChildrenForEphemerals, self.create(&self.at("e/x"), "", CreateMode::Persistent).await)
    }

    async fn hear(&self, watcher: OneshotWatcher, wanted: EventType) -> Outcome {
        let event = tokio::time::timeout(WAIT, watcher.changed()).await.map_err(text)?;
        expect("event", event.event_type, wanted)?;
        expect("path", event.path, self.at("w"))
    }

    async fn watches(&self) -> Outcome {
        let path = self.at("w");
        let (_, watcher) = self.client.check_and_watch_stat(&path).await.map_err(text)?;
        self.plain("w", "").await?;
        self.hear(watcher, EventType::NodeCreated).await?;
        let (_, _, watcher) = self.client.get_and_watch_data(&path).await.map_err(text)?;
        self.client.set_data(&path, b"1", None).await.map_err(text)?;
        self.hear(watcher, EventType::NodeDataChanged).await?;
        let (_, watcher) = self.client.list_and_watch_children(&path).await.map_err(text)?;
        self.plain("w/x", "").await?;
        self.hear(watcher, EventType::NodeChildrenChanged).await?;
        self.client.delete(&self.at("w/x"), None).await.map_err(text)?;
        let (_, watcher) = self.client.check_and_watch_stat(&path).await.map_err(text)?;
        self.client.delete(&path, None).await.map_err(text)?;
        self.hear(watcher, EventType::NodeDeleted).await
    }

    async fn multi(&self) -> Outcome {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let mut good = self.client.new_multi_writer();
        good.add_create(&self.at("m"), b"", &options).map_err(text)?;
        good.add_set_data(&self.at("m"), b"1", Some(0)).map_err(text)?;
        good.add_check_version(&self.at("m"), 1).map_err(text)?;
        good.commit().await.map_err(text)?;
        let mut bad = self.client.new_multi_writer();
        bad.add_delete(&self.at("m"), None).map_err(text)?;
        bad.add_check_version(&self.at("nobody"), 0).map_err(text)?;
        fails(Error::NoNode, bad.commit().await.map_err(Error::from))?;
        expect("still there", self.client.check_stat(&self.at("m")).await.map_err(text)?.is_some(), true)
    }

    async fn acls(&self) -> Outcome {
        self.client.auth("digest", b"ann:secret").await.map_err(text)?;
        let mine = CreateMode::Persistent.with_acls(Acls::creator_all());
        self.client.create(&self.at("mine"), b"", &mine).await.map_err(text)?;
        self.client.get_data(&self.at("mine")).await.map_err(text)?;
        let closed = CreateMode::Persistent.with_acls(Acls::anyone_read());
        self.client.create(&self.at("closed"), b"", &closed).await.map_err(text)?;
        fails(Error::NoAuth, self.client.set_data(&self.at("closed"), b"1", None).await)
    }

    async fn reconnect(&self) -> Outcome {
        let session = self.client.session_id().0;
        for _ in 0..300 {
            if let Ok(stat) = self.client.check_stat(&self.at("e")).await {
                return expect("owner", stat.ok_or("it is not there")?.ephemeral_owner, session);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err("no answer in time".to_string())
    }
}

async fn attempt(name: &str, feature: impl Future<Output = Outcome>) {
    match tokio::time::timeout(WAIT, feature).await {
        Ok(Ok(())) => println!("ok {name}"),
        Ok(Err(why)) => println!("failed {name}: {why}"),
        Err(_) => println!("failed {name}: no end in time"),
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let connector = Client::connector().with_session_timeout(Duration::from_secs(10));
    let client = connector.connect(&arguments[1]).await.expect("a connection");
    let story = Story { client, top: arguments[2].clone() };
    attempt("session", story.session()).await;
    attempt("nodes", story.nodes()).await;
    attempt("versions", story.versions()).await;
    attempt("sequence", story.sequence()).await;
    attempt("ephemerals", story.ephemerals()).await;
    attempt("watches", story.watches()).await;
    attempt("multi", story.multi()).await;
    attempt("acls", story.acls()).await;
    println!("restart");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).expect("an answer");
    if answer.trim() == "done" {
        attempt("reconnect", story.reconnect()).await;
    }
}
