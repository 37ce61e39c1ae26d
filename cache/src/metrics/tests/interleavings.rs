//! Connections that count at the same time, in many orders, while another thread reads.

use pinyon_net::sync::interleaved::{play, spawn};

use super::*;

/// How many answers have been counted.
fn answered(metrics: &Metrics) -> u64 {
    metrics.traffic().commands.iter().map(|of| of.answered).sum()
}

#[test]
fn nothing_that_connections_count_is_lost() {
    play(|| {
        let metrics = Arc::new(Metrics::default());
        let threads = [1, 2].map(|bytes| {
            let metrics = metrics.clone();
            spawn(move || {
                // The second connection may count where one that is gone did.
                for _ in 0..2 {
                    let meter = metrics.meter(SECOND);
                    meter.connected(true);
                    meter.answered(Counted::Get, true, 1);
                    meter.received(bytes, 10 * bytes);
                }
            })
        });
        let reading = {
            let metrics = metrics.clone();
            spawn(move || {
                let first = (answered(&metrics), metrics.heard());
                let second = (answered(&metrics), metrics.heard());
                assert!(first.0 <= second.0, "{} answers became {}", first.0, second.0);
                assert!(second.0 <= 4 && second.1 <= 6);
            })
        };
        threads.into_iter().chain([reading]).for_each(|thread| thread.join().unwrap());
        let Traffic { connections, sent, received, .. } = metrics.traffic();
        assert_eq!((answered(&metrics), connections, sent, received), (4, 0, 60, 6));
        assert_eq!(metrics.heard(), 6);
        assert!(metrics.blocks.lock().unwrap().len() <= 2, "there are no more blocks than connections at once");
    });
}

#[test]
fn failures_that_threads_count_together_are_all_counted() {
    play(|| {
        let metrics = Arc::new(Metrics::default());
        let threads = [(); 3].map(|()| {
            let metrics = metrics.clone();
            spawn(move || {
                metrics.failed(&Error::unanswered(&"a".into()), "get");
                metrics.retried("get");
                metrics.kept();
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let all = get(&metrics);
        assert_eq!((all.failed(), all.retries, metrics.kept.load(Ordering::Relaxed)), (3, 3, 3));
    });
}
