//! The one question that is asked of the Systems Manager: what a parameter says. Its requests are JSON.

use serde::Deserialize;

use crate::ec2::{Ec2Fault, ReadAnswerError};

pub(crate) const ACTION: &str = "GetParameter";
pub(crate) const TARGET: &str = "AmazonSSM.GetParameter";
pub(crate) const JSON: &str = "application/x-amz-json-1.1";

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Parameter")]
    parameter: Parameter,
}

#[derive(Deserialize)]
struct Parameter {
    #[serde(rename = "Value")]
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Fault {
    #[serde(rename = "__type")]
    kind: String,
    #[serde(alias = "Message")]
    message: String,
}

pub(crate) fn request(name: &str) -> String {
    serde_json::json!({ "Name": name }).to_string()
}

pub(crate) fn read(bytes: &[u8]) -> Result<String, ReadAnswerError> {
    let answer: Result<Answer, _> = serde_json::from_slice(bytes);
    let answer = answer.map_err(|_| ReadAnswerError::Missing("value of a parameter"))?;
    Ok(answer.parameter.value)
}

pub(crate) fn read_fault(status: u16, bytes: &[u8]) -> Ec2Fault {
    let fault: Fault = serde_json::from_slice(bytes).unwrap_or_default();
    // The word may come with the namespace it is from.
    let code = fault.kind.rsplit('#').next().unwrap_or_default();
    Ec2Fault::new(status, code, &fault.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::Meaning;

    #[test]
    fn a_parameter_is_read_and_a_missing_one_told() {
        let answer = br#"{"Parameter":{"Name":"/a","Value":"ami-1","Version":3}}"#;
        assert_eq!(read(answer).unwrap(), "ami-1");
        assert!(read(b"{}").is_err());
        let fault = read_fault(400, br#"{"__type":"com.amazonaws.ssm#ParameterNotFound"}"#);
        assert_eq!(fault.meaning(), Meaning::NotFound);
        assert_eq!(read_fault(503, b"<html>").meaning(), Meaning::Passing);
    }

    #[test]
    fn a_name_cannot_become_more_than_a_name() {
        let request = request("/a\",\"WithDecryption\":true,\"x\":\"");
        let read: serde_json::Value = serde_json::from_str(&request).unwrap();
        assert_eq!(read.as_object().unwrap().len(), 1);
    }
}
