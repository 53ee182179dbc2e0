use std::sync::Mutex;

use futures_util::future::BoxFuture;

use super::*;
use crate::source::BlobStream;

/// What a place does when its turn comes.
#[derive(Debug, Clone)]
enum Act {
    /// Gives bytes up to this position, and breaks off.
    Until(u64),
    /// Begins at 0 whatever is asked for, and gives everything.
    FromStart,
    Stale,
    Fail,
}

/// Places that act by a script, one act per opening.
#[derive(Debug)]
struct Script {
    content: Bytes,
    acts: Mutex<Vec<Act>>,
    asked: Mutex<usize>,
    places: usize,
}

struct ScriptPlace {
    name: String,
    content: Bytes,
    act: Act,
}

impl BlobSource for std::sync::Arc<Script> {
    fn places(&self, _digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        *self.asked.lock().unwrap() += 1;
        let mut acts = self.acts.lock().unwrap();
        let places = (0..self.places).map(|number| {
            let act = if acts.is_empty() {
                Act::Fail
            } else {
                acts.remove(0)
            };
            let content = self.content.clone();
            Box::new(ScriptPlace {
                name: format!("place {number}"),
                content,
                act,
            }) as Box<dyn BlobPlace>
        });
        let places = places.collect();
        Box::pin(std::future::ready(Ok(places)))
    }
}

impl BlobPlace for ScriptPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        let place = self.name.clone();
        let part = |from: u64, to: u64, is_cut: bool| {
            let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
            let mut pieces = vec![Ok(self.content.slice(from..to.max(from)))];
            if is_cut {
                pieces.push(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let bytes = futures_util::stream::iter(pieces).boxed();
            Ok(BlobStream {
                from: from as u64,
                bytes,
            })
        };
        let all = self.content.len() as u64;
        let answer = match self.act {
            Act::Until(end) => part(from, end.min(all), true),
            Act::FromStart => part(0, all, false),
            Act::Stale => Err(OpenBlobError::Stale { place }),
            Act::Fail => Err(OpenBlobError::Missing { place }),
        };
        Box::pin(std::future::ready(answer))
    }
}

struct Got {
    bytes: Vec<u8>,
    ended: bool,
    result: Result<BTreeSet<String>, FetchBlobError>,
    asked: usize,
}

async fn run(length: usize, places: usize, acts: Vec<Act>, size: Option<u64>, from: u64) -> Got {
    let content: Vec<u8> = (0..length)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let script = std::sync::Arc::new(Script {
        content: content.into(),
        acts: Mutex::new(acts),
        asked: Mutex::default(),
        places,
    });
    let wanted = Wanted {
        digest: Digest::from_sha256([0; 32]),
        size,
        limit: 1000,
        tries: 3,
        delay: Duration::from_millis(1),
        is_document: false,
    };
    let (sender, mut receiver) = mpsc::channel(QUEUE);
    let taker = async {
        let (mut bytes, mut ended) = (Vec::new(), false);
        while let Some(piece) = receiver.recv().await {
            match piece {
                Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
                Piece::End => ended = true,
            }
        }
        (bytes, ended)
    };
    let suspects = BTreeSet::new();
    let fetching = fetch(&script, &wanted, from, &suspects, sender);
    let (result, (bytes, ended)) = tokio::join!(fetching, taker);
    let asked = *script.asked.lock().unwrap();
    Got {
        bytes,
        ended,
        result,
        asked,
    }
}

fn expected(from: usize, to: usize) -> Vec<u8> {
    (from..to)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect()
}

#[tokio::test]
async fn the_bytes_are_the_same_however_often_it_breaks_off() {
    let acts = vec![
        Act::Until(10),
        Act::Until(10),
        Act::Stale,
        Act::Until(500),
        Act::FromStart,
    ];
    let got = run(700, 1, acts, Some(700), 0).await;
    assert_eq!(got.bytes, expected(0, 700));
    assert!(got.ended && got.result.is_ok());
}

#[tokio::test]
async fn a_blob_that_is_there_is_not_asked_for() {
    let got = run(700, 1, vec![], Some(700), 700).await;
    assert!(got.bytes.is_empty() && got.ended && got.asked == 0);
    assert_eq!(got.result.unwrap(), BTreeSet::new());
}

#[tokio::test]
async fn a_start_in_the_middle_gives_the_rest_only() {
    for act in [Act::Until(700), Act::FromStart] {
        let got = run(700, 1, vec![act], Some(700), 300).await;
        assert_eq!(got.bytes, expected(300, 700));
    }
}

#[tokio::test]
async fn it_is_given_up_after_tries_that_bring_nothing() {
    let got = run(700, 2, vec![Act::Until(5)], Some(700), 0).await;
    assert!(!got.ended, "an unfinished blob must not look finished");
    assert!(matches!(
        got.result,
        Err(FetchBlobError::GivenUp { tries: 3, .. })
    ));
    // The first round brought something and does not count.
    assert_eq!(got.asked, 4);
}

#[tokio::test]
async fn a_document_of_unknown_size_is_bounded() {
    let got = run(1001, 1, vec![Act::FromStart], None, 0).await;
    assert!(matches!(got.result, Err(FetchBlobError::TooLarge { limit: 1000 })) && !got.ended);
    let got = run(1000, 1, vec![Act::FromStart], None, 0).await;
    assert!(got.result.is_ok() && got.ended && got.bytes.len() == 1000);
}

#[tokio::test]
async fn more_than_was_declared_is_not_taken() {
    let got = run(700, 1, vec![Act::FromStart], Some(600), 0).await;
    assert_eq!(got.bytes, expected(0, 600));
}

#[tokio::test]
async fn suspects_come_last() {
    let script = std::sync::Arc::new(Script {
        content: vec![1; 10].into(),
        acts: Mutex::new(vec![Act::FromStart, Act::FromStart]),
        asked: Mutex::default(),
        places: 2,
    });
    let wanted = Wanted {
        digest: Digest::from_sha256([0; 32]),
        size: Some(10),
        limit: 10,
        tries: 1,
        delay: Duration::ZERO,
        is_document: false,
    };
    let (sender, _receiver) = mpsc::channel(QUEUE);
    let suspects = BTreeSet::from(["place 0".to_owned()]);
    let used = fetch(&script, &wanted, 0, &suspects, sender).await.unwrap();
    assert_eq!(used, BTreeSet::from(["place 1".to_owned()]));
}

/// Of two places: whichever acts come, in rounds.
async fn two_places(acts: Vec<Act>) -> (Result<BTreeSet<String>, FetchBlobError>, usize) {
    let script = std::sync::Arc::new(Script {
        content: vec![1; 10].into(),
        acts: Mutex::new(acts),
        asked: Mutex::default(),
        places: 2,
    });
    let wanted = Wanted {
        digest: Digest::from_sha256([0; 32]),
        size: Some(10),
        limit: 10,
        tries: 2,
        delay: Duration::ZERO,
        is_document: false,
    };
    let (sender, _receiver) = mpsc::channel(QUEUE);
    let used = fetch(&script, &wanted, 0, &BTreeSet::new(), sender).await;
    let asked = *script.asked.lock().unwrap();
    (used, asked)
}

#[tokio::test]
async fn a_place_that_is_no_longer_valid_keeps_nobody_from_the_others() {
    let (used, asked) = two_places(vec![Act::Stale, Act::FromStart]).await;
    assert_eq!(used.unwrap(), BTreeSet::from(["place 1".to_owned()]));
    assert_eq!(asked, 1, "no new places are needed");
}

#[tokio::test]
async fn new_places_are_asked_for_when_none_of_the_others_gives_it_and_stale_ones_come_last() {
    let acts = vec![Act::Stale, Act::Fail, Act::FromStart, Act::FromStart];
    let (used, asked) = two_places(acts).await;
    assert_eq!(used.unwrap(), BTreeSet::from(["place 1".to_owned()]));
    assert_eq!(asked, 2);
    let (used, asked) = two_places(vec![Act::Stale; 4]).await;
    assert!(matches!(
        used,
        Err(FetchBlobError::GivenUp { tries: 2, .. })
    ));
    assert_eq!(asked, 2);
}
