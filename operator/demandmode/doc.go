// Package demandmode puts the operator's half of demand mode together: sessions with the shards
// (package session), what they are told that the cluster needs (package rollup), and what
// Kubernetes shows of what they say (package readback).
//
// [New] makes a [Mode] of its parts and starts nothing; [Mode.Run] runs it for as long as the
// operator leads. What prepares machines to join, and what drains their Nodes, are parts that
// are handed in; they report Nodes with [Mode.Report].
//
// All that is read comes from the caches of the cluster that the Pods are in; all that is written
// goes through a client with limits of its own, so that the rest of the operator does not wait
// for it.
package demandmode
