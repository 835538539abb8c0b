// Package userdata fetches user data that stands at an address instead of in the
// configuration.
//
// A [Fetcher] makes one request: https only, ten seconds, at most [document.MaxUserdata]
// bytes, up to three redirections that stay on https. Its errors name the address
// without its query, which may hold a signature.
//
// A [Shelf] holds what was fetched. A copy that was just fetched serves every create
// of a burst; one that is up to an hour old serves where a new one cannot be had.
// A Shelf fetches nothing and waits for nothing; time comes in as an argument.
// [Lookups] fetch what is asked for, in a loop of their own.
//
// Decoding and rendering is package render's.
package userdata
