// Package rules asks a provider what its cloud takes: arguments, instance types, user data.
//
// A program that serves no provider, or a document of another one, has no rules: then nothing is
// known and nothing is refused, and callers need no case for it.
package rules
