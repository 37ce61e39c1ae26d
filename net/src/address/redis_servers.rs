//! Several Redis or Valkey servers, as users write them.

use super::{RedisUrl, ServerListError};

/// The fewest and the most servers of a quorum.
const FEWEST: usize = 3;
const MOST: usize = 9;

/// One server, or the members of a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisServers {
    pub first: RedisUrl,
    pub others: Vec<RedisUrl>,
}

impl RedisServers {
    /// Reads one URL, or several with spaces between them. The path of a Unix socket may itself have spaces.
    pub fn parse(text: &str) -> Result<Self, ServerListError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_url = |word: &&str| word.contains("://") || word.starts_with('/');
        if words.len() < 2 || !(words[0].contains("://") || words.iter().all(is_url)) {
            return Ok(Self { first: RedisUrl::parse(text)?, others: Vec::new() });
        }
        let urls = words.iter().map(|word| RedisUrl::parse(word)).collect::<Result<Vec<_>, _>>()?;
        if urls.len() % 2 == 0 || !(FEWEST..=MOST).contains(&urls.len()) {
            let message = format!(
                "url names {} servers; locks are held by one server, or by a majority of {FEWEST} to {MOST}, an odd number",
                urls.len()
            );
            return Err(ServerListError(message));
        }
        for (index, url) in urls.iter().enumerate() {
            if url.sentinels.is_some() || url.is_cluster {
                let servers = url.servers();
                let message = format!("{servers} is not one server: a quorum is of independent servers, redis:// each");
                return Err(ServerListError(message));
            }
            if urls[..index].iter().any(|other| other.endpoint == url.endpoint) {
                return Err(ServerListError(format!("url names the server {} twice", url.endpoint)));
            }
        }
        let mut urls = urls.into_iter();
        let first = urls.next().expect("there are several");
        Ok(Self { first, others: urls.collect() })
    }

    pub fn all(&self) -> impl Iterator<Item = &RedisUrl> {
        [&self.first].into_iter().chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let servers = RedisServers::parse(text).map_err(|error| error.to_string())?;
        Ok(servers.all().map(RedisUrl::servers).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn one_url_or_an_odd_number() {
        for (text, is) in [
            (" redis://a\n", "a:6379"),
            ("/run/my redis.sock", "/run/my redis.sock"),
            ("redis://a redis://:secret@b:7/2  unix:///run/c", "a:6379 b:7 /run/c"),
            ("/run/a /run/b\n/run/c", "/run/a /run/b /run/c"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(is));
        }
    }

    #[test]
    fn what_is_no_quorum_says_why() {
        let nine = (0..9).map(|port| format!("redis://a:{} ", port + 1)).collect::<String>();
        assert!(read(&nine).is_ok());
        for (text, why) in [
            ("redis://a redis://b", "url names 2 servers"),
            ("redis://a redis://b redis://c redis://d", "url names 4 servers"),
            (&format!("{nine} redis://b redis://c"), "url names 11 servers"),
            ("redis://a redis://b redis://:secret@A/3", "url names the server a:6379 twice"),
            ("redis://a redis://b redis+sentinel://c/main", "c:26379/main is not one server"),
            ("redis://a redis://b redis+cluster://c", "c:6379 is not one server"),
            ("redis://a redis://b c:secret", "the server's URL does not begin with redis://"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(why) && !message.contains("secret"), "{text}: {message}");
        }
    }
}
