// Package contexts knows the clusters of an administrator: where each is and which
// identity is used there.
//
// A [Context] stands in a file of its own (JSON, as "make dev" writes one), or under
// a name in a configuration file ([Config], YAML) beside others, of which one may be
// the current one. [Select] finds the context that a command is about. The package
// connects to nothing and reads no identity.
package contexts
