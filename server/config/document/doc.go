// Package document is what the static configuration of a shard says: the types of its members,
// how each is written in JSON, its defaults and its limits.
//
// [Decode] reads a text and fills the defaults in; whether what it says makes sense, package
// checks finds out. What a value means by itself stands with its type: the text that user data
// decodes to, when a maintenance window is open, what a tenant may have.
//
// The comments of the types and fields are read by users: the JSON Schema and
// docs/reference/configuration.md are made of them.
package document
