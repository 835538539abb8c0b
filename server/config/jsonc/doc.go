// Package jsonc reads JSON with comments and trailing commas into Go values and
// reports everything that does not fit, each with its line and column.
//
// The standard decoder stops at its first error and forgets where a value
// stood. [Decode] goes on: duplicate keys, unknown keys (with the nearest known
// name) and wrong types are all collected, and what fits is filled in, so that a
// caller can go on checking what the values mean. [Document.Problem] gives those
// later findings the same places.
//
// Types are described by their json tags, and by two additions: a type that
// implements json.Unmarshaler reads its own value, and may say what a right one
// looks like with a method Remedy() string; and the tag `jsonc:"scalars"` on a
// map of strings accepts numbers and booleans, which become strings as written.
// Numbers in a field of type any are json.Number, so that no digit is lost.
// Null is a value only inside such a field.
package jsonc
