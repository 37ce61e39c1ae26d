//! Threads that leave notes and threads that wait for them, in many orders.

use std::sync::Arc;

use pinyon_net::sync::interleaved::{play, spawn};

use super::*;

/// Whose lock was lost.
fn lost(note: Note<i32>) -> i32 {
    match note {
        Note::Lost { listener, .. } => listener,
        Note::Event { event, .. } => panic!("{}", event.line),
    }
}

fn leave(notes: &Notes<i32>, listener: i32) {
    notes.leave(Note::Lost { listener, loss: Loss::Gone });
}

#[test]
fn each_note_comes_to_one_of_those_who_wait() {
    play(|| {
        let notes = Arc::new(Notes::default());
        let taking = [(); 2].map(|()| {
            let notes = notes.clone();
            spawn(move || [(); 2].map(|()| lost(notes.wait().expect("nobody closes"))))
        });
        let leaving = [[1, 2], [3, 4]].map(|listeners| {
            let notes = notes.clone();
            spawn(move || listeners.map(|listener| leave(&notes, listener)))
        });
        for thread in leaving {
            thread.join().unwrap();
        }
        let mut all = taking.map(|thread| thread.join().unwrap()).concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4]);
        assert!(notes.take().is_none());
    });
}

#[test]
fn closing_ends_every_wait() {
    play(|| {
        let notes = Arc::new(Notes::default());
        let taking = [(); 3].map(|()| {
            let notes = notes.clone();
            spawn(move || std::iter::from_fn(|| notes.wait().map(lost)).count())
        });
        leave(&notes, 1);
        notes.close();
        let taken: usize = taking.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(taken + usize::from(notes.take().is_some()), 1);
        assert!(notes.is_closed());
    });
}

#[test]
fn an_interrupt_ends_one_wait_and_takes_no_note_from_another() {
    play(|| {
        let (notes, interrupted) = (Arc::new(Notes::default()), Arc::new(AtomicBool::new(false)));
        let ended = {
            let (notes, interrupted) = (notes.clone(), interrupted.clone());
            spawn(move || notes.wait_unless(&interrupted).map(lost))
        };
        let goes_on = {
            let notes = notes.clone();
            spawn(move || notes.wait().map(lost))
        };
        interrupted.store(true, Ordering::Relaxed);
        notes.interrupt();
        assert_eq!(ended.join().unwrap(), None);
        leave(&notes, 1);
        assert_eq!(goes_on.join().unwrap(), Some(1));
    });
}
