use super::*;

const LIMIT: usize = 100_000;

fn settings(algorithm: Algorithm) -> Settings {
    Settings { algorithm, level: None, threshold: 0, minimum_gain: 0.0 }
}

fn compressed(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let compressor = Compressor::new(settings(algorithm), None).expect("settings");
    compressor.compress(bytes).expect("compressed").expect("smaller")
}

fn reader() -> Decompressor {
    Decompressor::new(LIMIT, []).expect("no dictionaries")
}

#[test]
fn what_is_compressed_comes_back_and_tells_how_it_was_compressed() {
    for algorithm in Algorithm::ALL {
        for length in [100, 1000, LIMIT] {
            let value = vec![b'x'; length];
            let stored = compressed(algorithm, &value);
            assert_eq!(Algorithm::of(&stored), Some(algorithm));
            assert_eq!(reader().decompress(&stored), Ok(value));
        }
    }
}

#[test]
fn a_value_is_left_alone_that_is_short_or_hardly_gains() {
    let hardly: Vec<u8> = (0..=255).collect();
    for algorithm in Algorithm::ALL {
        let long = Settings { threshold: 1000, ..settings(algorithm) };
        let long = Compressor::new(long, None).expect("settings");
        assert_eq!(long.compress(&[b'x'; 999]), Ok(None));
        assert!(long.compress(&[b'x'; 1000]).expect("compressed").is_some());
        let gaining = Settings { minimum_gain: 0.5, ..settings(algorithm) };
        let gaining = Compressor::new(gaining, None).expect("settings");
        assert_eq!(gaining.compress(&hardly), Ok(None));
    }
}

#[test]
fn a_value_beyond_the_limit_is_refused_and_no_memory_taken_for_it() {
    for algorithm in Algorithm::ALL {
        let bomb = compressed(algorithm, &vec![0; 50 * LIMIT]);
        assert_eq!(reader().decompress(&bomb), Err(DecompressError::TooLarge { limit: LIMIT }));
    }
    let mut out = vec![0; LIMIT];
    grow(&mut out, LIMIT).expect("at the limit");
    assert!(out.capacity() <= 2 * LIMIT);
}

#[test]
fn a_value_that_does_not_say_how_long_it_is_comes_back_within_bounds() {
    // A frame without a declared size. Its single, last block is a run of "x".
    let frame = |length: u32| {
        let block = (length << 3 | 0b011).to_le_bytes();
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
        [&head[..], &block[..3], b"x"].concat()
    };
    assert_eq!(reader().decompress(&frame(1000)), Ok(vec![b'x'; 1000]));
    assert_eq!(reader().decompress(&frame(100_001)), Err(DecompressError::TooLarge { limit: LIMIT }));
}

#[test]
fn no_value_that_was_cut_changed_or_appended_to_is_taken_for_another() {
    let value: Vec<u8> = (0..300_u32).flat_map(|number| (number % 97).to_be_bytes()).collect();
    for algorithm in Algorithm::ALL {
        let stored = compressed(algorithm, &value);
        for end in 0..stored.len() {
            assert!(reader().decompress(&stored[..end]).is_err(), "{algorithm:?} cut at {end}");
        }
        assert_eq!(reader().decompress(&[&stored[..], b"more"].concat()), Err(DecompressError::Trailing));
        assert_eq!(reader().decompress(&[b"more", &stored[..]].concat()), Err(DecompressError::Unrecognized));
    }
}

#[test]
fn rubbish_is_an_error() {
    for algorithm in Algorithm::ALL {
        let stored = compressed(algorithm, &[b'x'; 500]);
        for position in 0..stored.len() {
            for bit in 0..8 {
                let mut changed = stored.clone();
                changed[position] ^= 1 << bit;
                let _ = reader().decompress(&changed);
                let _ = reader().decompress_as(algorithm, &changed);
            }
        }
    }
}

#[test]
fn settings_that_make_no_sense_say_why() {
    let refused = |change: fn(&mut Settings), why: &str| {
        let mut wrong = settings(Algorithm::Zlib);
        change(&mut wrong);
        let error = Compressor::new(wrong, None).expect_err("refused");
        assert!(error.contains(why), "{error}");
    };
    refused(|settings| settings.level = Some(10), "zlib has levels 1 to 9, not 10");
    refused(|settings| settings.minimum_gain = 1.0, "must be at least 0 and less than 1, not 1");
    let error = Compressor::new(settings(Algorithm::Gzip), Some(b"dictionary")).expect_err("refused");
    assert!(error.contains("zstd's"));
    let error = Decompressor::new(LIMIT, [(7, &b"dictionary"[..])]).expect_err("refused");
    assert!(error.contains("no id in it"));
}
