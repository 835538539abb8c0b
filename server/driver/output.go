package driver

import "context"

// MaxOutput is how many bytes of what a machine has written are told at once.
const MaxOutput = 64 << 10

// OutputSource is where what a machine has written comes from.
type OutputSource string

// The sources.
const (
	Console OutputSource = "console" // what it has written to its serial console, from its boot on
	Log     OutputSource = "log"     // what the provider has noted about it
)

// Output is what a machine has written.
type Output struct {
	// Data is the end of it, at most [MaxOutput] bytes, as they came: nothing is masked.
	Data []byte
	// Cut says that there was something before it.
	Cut bool
}

// Outputter is implemented by drivers that can tell what a machine has written.
type Outputter interface {
	// OutputSources returns where that comes from, each once, the one that tells most about a
	// machine that does not come up first; at least one.
	OutputSources() []OutputSource

	// Output returns the end of what a source has about a machine, which may be nothing yet, and
	// may be some minutes old where the cloud is slow to tell. It may be repeated and changes nothing.
	//
	// A machine that does not exist is an error of class NotFound, a source that is
	// not among the driver's one of class Unsupported.
	Output(ctx context.Context, ref Ref, source OutputSource) (Output, error)
}
