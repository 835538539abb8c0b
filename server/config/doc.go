// Package config turns the text that people write about a shard into one
// checked value, and says everything that is wrong with it at once.
//
// Two documents describe a shard. The static configuration,
// config/{shard}.jsonc, is written by people and tools and never by a server:
// [Load] reads it. The group file, groups/{shard}.jsonc, is written only by the
// shard's leader when somebody changes a group through the API: [DecodeGroups]
// reads it. [Effective] lays one over the other and gives, for each group of
// each tenant, what it should be.
//
// # What holds
//
//   - A bad configuration changes nothing. [Load] returns either a complete
//     [Config], with its defaults filled in, or [Problems]: each with file, line,
//     column, path and remedy, and all of them together (S19).
//   - Nothing is ignored in silence: unknown and duplicate keys are errors with
//     the nearest known name. Only "$schema" and keys that begin with "x-" are
//     left alone, anywhere (F50).
//   - The API cannot break a static group: [CheckUpsert] refuses its locked
//     fields by name.
//   - The group file keeps the fields that it does not know when it is written
//     again, and one of a newer version or that cannot be read is an error that a
//     caller can tell apart, never an empty file (F10).
//   - The hashes of a group are pinned by golden files: an upgrade that changed
//     one by accident would replace every machine.
//
// Everything here is a pure function of its arguments: there is no storage, no
// clock and no environment. A [Config] and what is derived from it are not
// changed after they were made, and may be shared between goroutines. Fetching,
// caching and reloading are the caller's; so is asking a cloud whether a subnet
// exists. The JSON Schema (package schema) and the reference in docs/ come from the
// comments of the types in this package.
//
// No cloud is known here. What a document may say of a provider, by names and types,
// stands in providers/NAME/rules/schema.json, of which the JSON Schema and providers.json
// are made; what it means the [driver.Rules] of the provider say.
package config

//go:generate go run ./internal/cmd/gen -out ../..
