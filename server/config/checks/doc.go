// Package checks finds what is wrong with the static configuration of a shard: names that stand
// for nothing, values out of range, templates that do not render, tenants that would get what is
// not theirs.
//
// [Document] finds all of it at once (S19). Each problem has its place in the text and a remedy;
// what is only likely a mistake is a warning. Types and unknown members are the decoder's; what the cloud
// takes the provider's rules say.
package checks
