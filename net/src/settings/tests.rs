use super::trial::{assert_hands_out_what_it_holds, filled};
use super::{Described, Given};
use crate::tls::TlsSettings;

#[test]
fn the_settings_of_tls_are_a_table() {
    assert_hands_out_what_it_holds::<TlsSettings>();
    let settings: TlsSettings = filled(&[("ca", Given::Bytes(b"/ca\xff")), ("key", Given::Text("key"))]).unwrap();
    assert_eq!(settings.to_string(), "ca=/ca\u{fffd}, key=key");
    assert_eq!(TlsSettings::default().to_string(), "trusting what the system trusts");
}

#[test]
fn tables_are_joined_to_one_json_object() {
    let [defaults, texts, choices] = Described::joined([super::described(), super::described()]);
    let defaults: serde_json::Value = serde_json::from_str(&defaults).unwrap();
    assert_eq!(defaults["Tls"].as_object().unwrap().len(), 5);
    assert_eq!((texts.as_str(), choices.as_str()), ("{}", "{}"));
}
