// Package program is what the operator's programs have in common: how they reach the API
// server, wait for kinds that an installation may bring in any order, serve metrics, log, and
// which exit codes they have.
//
// What a program does is its own package's business; nothing here starts a controller.
package program
