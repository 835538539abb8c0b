// Package cli is the command line of nstance-admin.
//
// Each command is made by a constructor that knows its flags and help; its work
// is a function of a client and a writer. [Run] carries one command out and maps
// its outcome to an exit code. The package has no state of its own: whatever a
// command may touch of the process stands in [Env].
//
// Connections are the subject of package shardclient, formats of package output,
// waiting of package wait, and work on the storage itself of package clusterops.
package cli

import (
	"io"
	"time"
)

// Env is the world of a command. All fields are required, except that a nil
// Context of the caller is not one of them.
type Env struct {
	In       io.Reader
	Out      io.Writer // results
	Err      io.Writer // errors, progress and remarks
	Terminal bool      // Err is a terminal
	Screen   bool      // Out is a terminal
	Prompt   bool      // In and Err are terminals: somebody can be asked
	Getenv   func(string) string
	Now      func() time.Time
	TempDir  string // where default outputs go
	Version  string
}
