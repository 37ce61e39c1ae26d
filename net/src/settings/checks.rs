//! Checks that several settings share.

use std::time::Duration;

use crate::invalid::InvalidArgument;
use crate::network::Keepalive;

/// The most seconds of any setting: 68 years.
pub(super) const MOST_SECONDS: u64 = (1 << 31) - 1;

/// A positive number of seconds.
pub fn seconds(name: &str, seconds: f64) -> Result<Duration, InvalidArgument> {
    if seconds >= (MOST_SECONDS + 1) as f64 {
        return Err(InvalidArgument::usage(format!("{name} must be at most {MOST_SECONDS} seconds, not {seconds:?}")));
    }
    let valid = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    valid.ok_or_else(|| InvalidArgument::usage(format!("{name} must be a positive number of seconds, not {seconds:?}")))
}

/// A number of seconds that is at least this.
pub fn seconds_from(least: Duration, name: &str, given: f64) -> Result<Duration, InvalidArgument> {
    let duration = seconds(name, given)?;
    match duration >= least {
        true => Ok(duration),
        false => {
            let least = least.as_secs_f64();
            Err(InvalidArgument::usage(format!("{name} must be at least {least:?} seconds, not {given:?}")))
        }
    }
}

/// A time to wait, in seconds. It may be 0 or infinite.
pub fn waiting_time(name: &str, seconds: f64) -> Result<Duration, InvalidArgument> {
    const LONGEST: f64 = 1e9;
    match seconds >= 0.0 {
        true => Ok(Duration::from_secs_f64(seconds.min(LONGEST))),
        false => {
            let message = format!("{name} must be a number of seconds, 0 or more, not {seconds:?}");
            Err(InvalidArgument::usage(message))
        }
    }
}

/// When the system asks whether a silent connection is still there. 0 seconds: never.
pub fn keepalive(idle: f64, interval: f64, probes: i64) -> Result<Keepalive, InvalidArgument> {
    let within = |name: &str, given: f64| match seconds(name, given)? {
        duration if duration.as_secs() <= Keepalive::LONGEST => Ok(duration),
        _ => {
            Err(InvalidArgument::usage(format!("{name} must be at most {} seconds, not {given:?}", Keepalive::LONGEST)))
        }
    };
    Ok(Keepalive {
        idle: if idle == 0.0 { None } else { Some(within("keepalive", idle)?) },
        interval: within("keepalive_interval", interval)?,
        probes: up_to("keepalive_probes", probes, Keepalive::MOST_PROBES as usize)? as u32,
    })
}

pub fn positive(name: &str, number: i64) -> Result<usize, InvalidArgument> {
    let positive = usize::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| InvalidArgument::usage(format!("{name} must be at least 1, not {number}")))
}

pub fn up_to(name: &str, number: i64, most: usize) -> Result<usize, InvalidArgument> {
    let number = positive(name, number)?;
    match number <= most {
        true => Ok(number),
        false => Err(InvalidArgument::usage(format!("{name} must be at most {most}, not {number}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalive_has_times_that_the_system_takes() {
        let given = keepalive(30.0, 2.5, 4).unwrap();
        assert_eq!((given.idle, given.interval), (Some(Duration::from_secs(30)), Duration::from_millis(2500)));
        assert_eq!(keepalive(60.0, 15.0, 4).unwrap(), Keepalive::default());
        assert_eq!(keepalive(0.0, 15.0, 4).unwrap().idle, None);
        let most = "keepalive must be at most 2147483647 seconds, not";
        assert_eq!(seconds("keepalive", 2_147_483_647.5).unwrap().as_secs(), MOST_SECONDS);
        assert_eq!(seconds("keepalive", 2_147_483_648.0).unwrap_err().message, format!("{most} 2147483648.0"));
        assert_eq!(seconds("keepalive", f64::INFINITY).unwrap_err().message, format!("{most} inf"));
        for (idle, interval, probes, message) in [
            (-1.0, 15.0, 4, "keepalive must be a positive number of seconds, not -1.0"),
            (32_768.0, 15.0, 4, "keepalive must be at most 32767 seconds, not 32768.0"),
            (60.0, 0.0, 4, "keepalive_interval must be a positive number of seconds, not 0.0"),
            (60.0, 15.0, 128, "keepalive_probes must be at most 127, not 128"),
        ] {
            assert_eq!(keepalive(idle, interval, probes).unwrap_err().message, message);
        }
    }
}
