// Package groupfile is the group file, groups/{shard}.jsonc: the groups, overrides and pauses
// that were made through the API, and the copies that a leader keeps of what the configuration
// said.
//
// [Decode] reads one and [Encode] writes it. Fields that this program does not know are kept and
// written again. A file of a newer version ([ErrNewer]) or one that cannot be read
// ([ErrUnreadable]) is an error that a caller can tell apart, never an empty file (F10).
// Changes are made by [File.Attempt], which keeps what the next leader can read and nothing
// else (S24).
//
// Package requests decides which changes a caller may make; package effective says what the
// entries come to, together with the configuration.
package groupfile
