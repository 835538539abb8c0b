// Package config loads the configuration of a shard: it turns the text that people write
// into one checked value, and says everything that is wrong with it at once.
//
// Two documents describe a shard. The static configuration, config/{shard}.jsonc, is written
// by people and tools and never by a server. The group file, groups/{shard}.jsonc, is written
// only by the shard's leader when somebody changes a group through the API. The packages below
// this one each have a part in it, from the bottom to the top:
//
//   - jsonc reads a text with comments, and knows the place of each value in it.
//   - schema is the JSON Schema of the static configuration, and what providers add to it.
//   - texttemplate renders the templates in both documents.
//   - document is what the static configuration says: its types, its defaults, its limits.
//   - groupfile is what the group file says, and how it is read, changed and written.
//   - rules asks the provider about arguments, types and user data.
//   - effective lays the group file over the configuration: what each group should be.
//   - dryrun renders a group's templates with made-up data.
//   - checks finds all that is wrong with a configuration, with place and remedy.
//   - requests decides what a caller of the API may change.
//
// # What holds
//
//   - A bad configuration changes nothing. [Load] returns either a complete
//     [effective.Config], with its defaults filled in, or [jsonc.Problems]: each with file, line,
//     column, path and remedy, and all of them together (S19).
//   - Nothing is ignored in silence: unknown and duplicate keys are errors with
//     the nearest known name. Only "$schema" and keys that begin with "x-" are
//     left alone, anywhere (F50).
//
// Everything here and below is a pure function of its arguments: there is no storage, no
// clock and no environment. A configuration and what is derived from it are not
// changed after they were made, and may be shared between goroutines. Fetching,
// caching and reloading are the caller's; so is asking a cloud whether a subnet
// exists. The JSON Schema (package schema) and the reference in docs/ come from the
// comments of the types in package document.
//
// No cloud is known here. What a document may say of a provider, by names and types,
// stands in providers/NAME/rules/schema.json, of which the JSON Schema and providers.json
// are made; the [driver.Rules] of the provider say what it means.
package config

//go:generate go run ./internal/cmd/gen -out ../..
